#include "ir/stmt.h"

namespace autotune {

Stmt MakeStmt(StmtNode node) { return Stmt(new StmtCell(std::move(node))); }

Stmt MakeSeq(std::vector<Stmt> stmts) {
  std::vector<Stmt> flat;
  for (Stmt& s : stmts) {
    if (const Seq* seq = s.As<Seq>()) {
      flat.insert(flat.end(), seq->stmts.begin(), seq->stmts.end());
    } else {
      flat.push_back(std::move(s));
    }
  }
  return flat.size() == 1 ? flat[0] : MakeStmt(Seq{std::move(flat)});
}

}  // namespace autotune
