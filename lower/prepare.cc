#include <algorithm>

#include "lower/passes.h"

namespace autotune {
namespace {

struct TopLevel {
  Stmt stmt;
  std::set<Name> reads, writes;
  bool movable = true;
};

TopLevel Inspect(const Stmt& s) {
  TopLevel top{s, {}, {}, true};
  Walk(
      s,
      [&](const Stmt& x) {
        if (const Store* store = x.As<Store>()) top.writes.insert(store->buffer->name);
        return true;
      },
      [&](const Expr& x) {
        if (const Load* load = x.As<Load>()) top.reads.insert(load->buffer->name);
        return true;
      });
  return top;
}

}  // namespace

PrepareSplit SplitPrepare(const PrimFunc& f) {
  std::set<Name> constants, intermediates;
  for (const Param& p : f.params) {
    if (p.role == ParamRole::kConstant) constants.insert(p.buffer->name);
  }
  for (const Buffer& b : f.allocs) {
    if (b->scope == Scope::kGlobal) intermediates.insert(b->name);
  }
  std::vector<TopLevel> tops;
  if (const Seq* seq = f.body.As<Seq>()) {
    for (const Stmt& s : seq->stmts) tops.push_back(Inspect(s));
  } else {
    tops.push_back(Inspect(f.body));
  }
  // Finds the largest set of statements that read only constants and buffers that the set writes, and that write only
  // intermediates which no statement outside the set writes.
  for (bool changed = true; changed;) {
    changed = false;
    std::set<Name> written_by_run;
    for (const TopLevel& top : tops) {
      if (!top.movable) written_by_run.insert(top.writes.begin(), top.writes.end());
    }
    for (TopLevel& top : tops) {
      if (!top.movable) continue;
      bool ok = std::all_of(top.writes.begin(), top.writes.end(),
                            [&](const Name& n) { return intermediates.contains(n) && !written_by_run.contains(n); });
      ok = ok && std::all_of(top.reads.begin(), top.reads.end(), [&](const Name& n) {
             return constants.contains(n) || (intermediates.contains(n) && !written_by_run.contains(n));
           });
      if (!ok) top.movable = false, changed = true;
    }
  }
  PrepareSplit split{f, std::nullopt, {}};
  std::set<Name> written, read_by_run;
  std::vector<Stmt> prepare_body, run_body;
  for (const TopLevel& top : tops) {
    (top.movable ? prepare_body : run_body).push_back(top.stmt);
    if (top.movable) {
      written.insert(top.writes.begin(), top.writes.end());
    } else {
      read_by_run.insert(top.reads.begin(), top.reads.end());
    }
  }
  if (prepare_body.empty()) return split;

  PrimFunc prepare{f.name.str() + "_prepare", {}, {}, f.attrs, MakeSeq(std::move(prepare_body))};
  for (const Param& p : f.params) {
    if (p.role == ParamRole::kConstant) prepare.params.push_back(p);
  }
  split.run.allocs.clear();
  split.run.body = MakeSeq(std::move(run_body));
  for (const Buffer& b : f.allocs) {
    if (!written.contains(b->name)) {
      split.run.allocs.push_back(b);
    } else if (read_by_run.contains(b->name)) {
      split.prepared.push_back(b);
      split.run.params.push_back({b, ParamRole::kConstant});
      prepare.params.push_back({b, ParamRole::kOutput});
    } else {
      prepare.allocs.push_back(b);
    }
  }
  // If `run` reads no prepared buffer, `prepare` is dead code and is dropped.
  if (!split.prepared.empty()) split.prepare = std::move(prepare);
  return split;
}

}  // namespace autotune
