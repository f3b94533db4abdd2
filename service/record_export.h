// Records for programs of others: their features, as lines of JSON, as CSV, and as T4, the format for results of the
// auto-tuning community. docs/records.md describes the formats. Not thread-safe.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "costmodel/features.h"
#include "records/record.h"
#include "support/hash.h"
#include "support/json.h"
#include "support/result.h"

namespace autotune {

// Returns the label of a record's task, or an empty text if the tuner stored none.
std::string LabelOf(const Record& record);

// Computes the features of records. It keeps the programs and targets that it has read, since many records share them.
class RecordFeatures {
 public:
  RecordFeatures();
  ~RecordFeatures();
  // Returns the features of the present schema. Error: this version cannot replay the record.
  Result<Features> Of(const Record& record);

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

enum class ExportFormat { kJsonl, kCsv, kT4 };
AUTOTUNE_ENUM(ExportFormat, "jsonl", "csv", "t4")

// Formats records one by one: Begin, one Next for each record, End. Their texts together are the file.
class RecordWriter {
 public:
  // `features`: each record with its features, or without any if it cannot be replayed.
  RecordWriter(ExportFormat format, bool features) : format_(format), features_(features) {}
  std::string Begin() const;
  std::string Next(const Record& record);
  std::string End() const;
  int64_t count() const { return count_; }
  int64_t without_features() const { return without_features_; }  // records that cannot be replayed

 private:
  const ExportFormat format_;
  const bool features_;
  RecordFeatures reader_;
  int64_t count_ = 0, without_features_ = 0;
};

// Returns a record as JSON, with the list "features" (null: it cannot be replayed).
Json RecordWithFeatures(const Record& record, const std::optional<Features>& features);

}  // namespace autotune
