#include "records/sqlite_prune.h"

namespace autotune {
namespace {

// Selects the records to keep: the first `?` of each task and target, in the order of RecordStore::Top.
constexpr char kKept[] = R"(
  INSERT INTO temp.kept SELECT seq FROM (
    SELECT seq, row_number() OVER (PARTITION BY task, target ORDER BY disturbed <> '', confirmation DESC, cost, seq) AS place FROM (
      SELECT seq, task, target, cost, confirmation, disturbed, row_number() OVER (
          PARTITION BY task, target, alternative, func, trace ORDER BY disturbed <> '', confirmation DESC, cost, seq) AS twin
        FROM record WHERE status = 'ok' AND verified = 1)
      WHERE twin = 1)
    WHERE place <= ?)";

constexpr char kCounts[] = R"(
  SELECT task.body, target.body, g.kept, g.n - g.kept
    FROM (SELECT r.task, r.target, count(*) AS n, count(k.seq) AS kept
            FROM record r LEFT JOIN temp.kept k ON k.seq = r.seq GROUP BY r.task, r.target) g
    JOIN text task ON task.id = g.task JOIN text target ON target.id = g.target ORDER BY 1, 2)";

constexpr char kDelete[] = R"(
  DELETE FROM record WHERE seq NOT IN (SELECT seq FROM temp.kept);
  DELETE FROM text WHERE id NOT IN (
    SELECT task FROM record UNION SELECT target FROM record UNION SELECT run FROM record
    UNION SELECT alternative FROM record UNION SELECT func FROM record UNION SELECT device FROM record
    UNION SELECT tenant FROM record);
  DROP TABLE temp.kept;
  COMMIT)";

}  // namespace

Result<std::vector<PruneCount>> PruneTables(Connection& connection, int keep, bool dry_run) {
  TRY(connection.Run("BEGIN IMMEDIATE; CREATE TEMP TABLE kept(seq INTEGER PRIMARY KEY)"));
  std::vector<PruneCount> counts;
  {
    Query choose = TRY(Query::Make(connection, kKept));
    TRY(choose.Int(keep).Do());
    Query count = TRY(Query::Make(connection, kCounts));
    while (TRY(count.Step())) {
      counts.push_back(
          {.task = count.TextAt(0), .target = count.TextAt(1), .kept = count.IntAt(2), .removed = count.IntAt(3)});
    }
  }
  if (dry_run) {
    connection.RollBack();
  } else {
    TRY(connection.Run(kDelete));
  }
  return counts;
}

}  // namespace autotune
