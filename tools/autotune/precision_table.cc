#include "tools/autotune/precision_table.h"

#include "support/printf_text.h"
#include "support/terminal.h"
#include "support/utf8.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

std::string BoundText(const PrecisionBound& bound) {
  std::string text;
  if (bound.max_error > 0) text = Format("an error of at most %g", bound.max_error);
  if (bound.min_agreement > 0)
    text += (text.empty() ? "" : " and ") + Format("an agreement of at least %g %%", 100 * bound.min_agreement);
  return text;
}

std::string RemarkOf(const PrecisionPoint& point) {
  if (point.chosen) return "chosen";
  if (!point.holds) return "not within the bound";
  return point.best ? "" : "no gain";
}

std::string PointsTable(const PrecisionChoice& choice) {
  std::string text =
      Format("%-10s %9s %9s %7s %5s %5s %5s\n", "network", "error", "agreement", "speed", "f32", "bf16", "int8");
  for (const PrecisionPoint& point : choice.points) {
    text += Format("%-10s %9.3g %8.4g%% %6.2fx %5d %5d %5d  ", point.name.c_str(), point.error, 100 * point.agreement,
                   point.speedup, point.f32, point.bf16, point.int8) +
            RemarkOf(point) + "\n";
  }
  return text;
}

std::string ProductsTable(const PrecisionChoice& choice, int width) {
  std::string text = Format("%9s %9s %9s %6s  %-5s  %s\n", "us", "us in f32", "error", "share", "as", "product");
  for (const ProductPrecision& product : choice.products) {
    const std::string columns =
        Format("%9.1f %9.1f %9.3g %5.1f%%  %-5s  ", product.seconds * 1e6, product.f32_seconds * 1e6, product.error,
               100 * product.share, std::string(ToText(product.precision)).c_str());
    text += Row(columns, OneLine(product.node) + ": " + product.op, width);
  }
  return text;
}

}  // namespace

std::string PrecisionTable(const event::Precisions& chosen, int width) {
  const PrecisionChoice& choice = chosen.choice;
  const PrecisionPoint& point = choice.chosen();
  std::string text = ProductsTable(choice, width) + "\n" + PointsTable(choice) + "\n";
  const std::string samples = CountText(choice.samples, "sample");
  text += WrapWords(
              "precisions for " + BoundText(choice.bound) + " over " + samples + ": " + point.name +
                  Format(", %.2f times as fast as f32, with an error of %.4g of output '", point.speedup, point.error) +
                  OneLine(point.output) + "', ||y - y32|| / ||y32||" +
                  (chosen.known ? "; chosen by an earlier run of this command" : ""),
              width) +
          "\n\n";
  return text;
}

}  // namespace autotune::tools
