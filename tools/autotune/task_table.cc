#include "tools/autotune/task_table.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "support/task_id.h"
#include "support/terminal.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

using event::Task;

constexpr int kNameColumns = 28;       // least width of the last column, before less important columns are left out
constexpr double kVisibleGain = 1e-2;  // relative gain from which on a time is painted; smaller ones may be noise

struct Cell {
  std::string text;
  std::optional<Colour> colour = {};
};

struct Column {
  const char* title;
  int width;       // of its cells, which are aligned to the right
  int importance;  // 0: always shown; others are left out in ascending order
  Cell (*cell)(const Task&);
};

Cell Number(std::optional<double> value, int digits, const char* mark = "") {
  return {(value ? Format("%.*f", digits, *value) : "-") + mark};
}

Cell TimeCell(std::optional<double> ms) { return {ms ? TimeText(*ms / 1e3) : "-"}; }

// Says `default` instead of a time that was not measured separately.
Cell TunedCell(const Task& task) {
  if (task.failed) return {"failed ", Colour::kFault};
  if (!task.tuned_ms) return {"untried ", Colour::kRemark};
  const std::string mark = task.network_differs ? "!" : " ";
  if (task.only_schedule) return {"only one" + mark, Colour::kRemark};
  if (task.keeps_default) return {"default" + mark};
  Cell cell{TimeText(*task.tuned_ms / 1e3) + mark};
  if (task.network_differs) {
    cell.colour = Colour::kRemark;
  } else if (task.default_ms && *task.tuned_ms < *task.default_ms * (1 - kVisibleGain)) {
    cell.colour = Colour::kGain;
  }
  return cell;
}

Cell Percent(std::optional<double> share, const char* mark = "") {
  if (share) *share *= 100;
  return Number(share, 1, mark);
}

const std::vector<Column>& AllColumns() {
  static const std::vector<Column> columns = {
      {"calls", 5, 0, [](const Task& t) { return Cell{std::to_string(t.weight)}; }},
      {"default", 9, 0, [](const Task& t) { return TimeCell(t.default_ms); }},
      {"tuned ", 10, 0, TunedCell},
      {"% time", 6, 0, [](const Task& t) { return Percent(t.share); }},
      {"GFLOPS", 8, 1, [](const Task& t) { return Number(t.gflops, 1); }},
      {"% peak ", 8, 2, [](const Task& t) { return Percent(t.peak_share, t.winograd ? "*" : " "); }},
      {"trials", 6, 3, [](const Task& t) { return Cell{std::to_string(t.trials)}; }},
  };
  return columns;
}

// Returns the columns whose importance is 0 or more than `bound`.
std::vector<Column> ColumnsAbove(int bound) {
  std::vector<Column> some;
  for (const Column& column : AllColumns()) {
    if (column.importance == 0 || column.importance > bound) some.push_back(column);
  }
  return some;
}

int WidthOf(const std::vector<Column>& columns) {
  int width = static_cast<int>(kTaskIdDigits) + 2;  // of the id, and before the name
  for (const Column& column : columns) width += 1 + column.width;
  return width;
}

std::vector<Column> FittingColumns(int width) {
  int bound = 0;
  std::vector<Column> columns = ColumnsAbove(bound);
  while (width > 0 && WidthOf(columns) + kNameColumns > width && bound < 3) columns = ColumnsAbove(++bound);
  return columns;
}

std::string AlignedRight(const Cell& cell, int width, bool colours) {
  const int blanks = std::max(0, width - TextWidth(cell.text));
  const std::string text = cell.colour ? Painted(cell.text, *cell.colour, colours) : cell.text;
  return std::string(static_cast<size_t>(blanks), ' ') + text;
}

std::string Named(const std::string& name, int used, const TableStyle& style) {
  return "  " + (style.width > 0 ? CutToWidth(name, style.width - used) : name) + "\n";
}

struct Mark {
  bool (*is_used)(const Task&);
  std::string meaning;
  bool of_speeds = false;
};

// `speeds`: the columns of speeds are shown.
std::string Legend(const event::End& end, int width, bool speeds) {
  const std::vector<Mark> marks = {
      {[](const Task& t) { return t.only_schedule; }, "only one: the task has no other schedule"},
      {[](const Task& t) { return t.network_differs; },
       end.choice && end.choice->kept_defaults
           ? "!: the network keeps the default schedule of this task"
           : "!: the network runs another schedule of this task, which suits the whole network better"},
      {[](const Task& t) { return t.winograd; },
       "*: a Winograd convolution; GFLOPS and % peak count the operations of the direct algorithm, which has more",
       /*of_speeds=*/true},
      {[](const Task& t) { return !t.tuned_ms && !t.failed; }, "untried: no trials were left for the task"},
      {[](const Task& t) { return t.failed; }, "failed: no candidate worked; the task keeps its default schedule"},
  };
  std::string text;
  for (const Mark& mark : marks) {
    const bool shown = speeds || !mark.of_speeds;
    if (shown && std::any_of(end.tasks.begin(), end.tasks.end(), mark.is_used))
      text += WrapWords(mark.meaning, width) + "\n";
  }
  return text;
}

}  // namespace

std::string TaskTable(const event::End& end, const TableStyle& style) {
  const std::vector<Column> columns = FittingColumns(style.width);
  const int used = WidthOf(columns);
  std::string text = "task    ";
  for (const Column& column : columns) text += " " + AlignedRight({column.title}, column.width, false);
  text += Named("operators and shapes", used, style);
  for (const Task& task : end.tasks) {
    text += ShortTaskId(task.hash);
    for (const Column& column : columns) text += " " + AlignedRight(column.cell(task), column.width, style.colours);
    text += Named(task.task, used, style);
  }
  if (end.kernels_ms) {
    text +=
        WrapWords(std::string("times: one call of the kernel alone, with its inputs in the caches and its weights ") +
                      (end.gpu     ? "there, too"
                       : end.alone ? "in memory"
                                   : "in the cache level, or in memory, where the network leaves them") +
                      "; % time: share of all calls, in sum " + TimeText(*end.kernels_ms / 1e3),
                  style.width) +
        "\n";
  }
  const bool speeds = columns.size() == AllColumns().size();
  if (speeds && end.peak_gflops)
    text += WrapWords(Format("%% peak: of %.0f GFLOPS, the multiply-adds of all cores on registers", *end.peak_gflops),
                      style.width) +
            "\n";
  return text + Legend(end, style.width, speeds);
}

}  // namespace autotune::tools
