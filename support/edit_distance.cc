#include "support/edit_distance.h"
#include "support/hint.h"

#include <algorithm>

namespace autotune {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

bool IsNear(std::string_view a, std::string_view b) {
  return EditDistance(a, b) <= std::max<size_t>(2, std::max(a.size(), b.size()) / 3);
}

std::vector<std::string> NearWords(std::string_view word, std::span<const std::string> words) {
  std::vector<std::string> near;
  for (const std::string& known : words) {
    if (IsNear(word, known)) near.push_back(known);
  }
  std::stable_sort(near.begin(), near.end(), [&](const std::string& a, const std::string& b) {
    return EditDistance(word, a) < EditDistance(word, b);
  });
  return near;
}

std::string Suggestion(std::string_view word, std::span<const std::string> words) {
  std::vector<std::string> near = NearWords(word, words);
  return near.empty() ? "" : "; did you mean " + near[0] + "?";
}

Error WithSuggestion(Error error, std::string_view word, std::span<const std::string> words) {
  const std::vector<std::string> near = NearWords(word, words);
  return near.empty() ? std::move(error) : WithHint(std::move(error), "did you mean " + near[0] + "?");
}

}  // namespace autotune
