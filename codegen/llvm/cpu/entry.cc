#include "codegen/llvm/cpu/entry.h"

#include "codegen/arguments.h"
#include "codegen/llvm/cpu/function.h"
#include "codegen/llvm/cpu/scratch.h"
#include "runtime/abi.h"
#include "support/check.h"
#include "support/json.h"

namespace autotune {
namespace {

// Offsets in bytes of the fields of DLTensor (dlpack.h), whose layout is a public ABI.
constexpr int kData = 0, kDeviceType = 8, kNdim = 16, kDtype = 20, kShape = 24, kStrides = 32, kByteOffset = 40;

// Declares ptr autotune.check(ptr tensor, ptr description), which returns the tensor's data pointer, or null if the
// tensor does not match the description.
llvm::Function* DeclareCheck(llvm::Module& module) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(module.getContext());
  llvm::FunctionType* type = llvm::FunctionType::get(pointer, {pointer, pointer}, false);
  llvm::Function* check = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "autotune.check", module);
  check->setVisibility(llvm::Function::HiddenVisibility);
  return check;
}

class EntryEmitter {
 public:
  EntryEmitter(Modules modules, const LoweredKernel& kernel, const Target& target)
      : modules_(modules),
        module_(modules.cold),
        context_(module_.getContext()),
        kernel_(kernel),
        target_(target),
        b_(context_) {}

  // Emits i32 NAME(ptr context, ptr args), which loads the pointers that the body uses, allocates the body's scratch
  // memory and calls the body.
  void EmitRaw(const std::string& name, const PrimFunc& f) {
    const auto [pointers, positions, workspace] = BodyPointersOf(kernel_, f);
    FunctionEmitter emitter(modules_, target_, name, StreamedBuffers(f.body, target_));
    llvm::Function* body = SeenFrom(module_, emitter.EmitBody(pointers, f.body));

    llvm::Type* pointer = b_.getPtrTy();
    llvm::Function* raw = Exported(name, {pointer, pointer});
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", raw));
    llvm::Value *context = raw->getArg(0), *args = raw->getArg(1);
    std::vector<llvm::Value*> values{context};
    for (int i : positions) values.push_back(b_.CreateLoad(pointer, b_.CreateConstInBoundsGEP1_64(pointer, args, i)));
    ScratchMemory scratch = AllocateScratch(b_, context, workspace);
    values.insert(values.end(), scratch.pointers.begin(), scratch.pointers.end());
    llvm::Value* code = b_.CreateCall(body, values);
    FreeScratch(b_, context, scratch);
    b_.CreateRet(code);
  }

  // Emits i32 NAME(ptr context, ptr tensors, i32 num_args), which checks the arguments and calls NAME.raw.
  void EmitChecked() {
    const std::string name = kernel_.name.str();
    const std::vector<ExpectedArgument> expected = ExpectedArgumentsOf(kernel_);
    std::vector<llvm::Constant*> descriptions;
    for (const ExpectedArgument& e : expected) descriptions.push_back(Description(e));
    llvm::Type* pointer = b_.getPtrTy();
    auto* table_type = llvm::ArrayType::get(pointer, descriptions.size());
    auto* table = new llvm::GlobalVariable(module_, table_type, true, llvm::GlobalValue::PrivateLinkage,
                                           llvm::ConstantArray::get(table_type, descriptions), name + ".params");
    llvm::Function* check = DeclareCheck(module_);

    int64_t count = static_cast<int64_t>(expected.size());
    llvm::Function* entry = Exported(name, {pointer, pointer, b_.getInt32Ty()});
    llvm::Value *context = entry->getArg(0), *tensors = entry->getArg(1);
    auto block = [&](const char* label) { return llvm::BasicBlock::Create(context_, label, entry); };
    llvm::BasicBlock *start = block("entry"), *loop = block("loop"), *next = block("next"), *call = block("call"),
                     *fail = block("fail");
    b_.SetInsertPoint(start);
    llvm::Value* pointers = b_.CreateAlloca(llvm::ArrayType::get(pointer, count));
    llvm::Constant* wrong_count = b_.CreateGlobalString(WrongCountMessage(kernel_), "", 0, &module_);
    b_.CreateCondBr(b_.CreateICmpEQ(entry->getArg(2), b_.getInt32(static_cast<uint32_t>(count))), loop, fail);
    b_.SetInsertPoint(loop);
    llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
    i->addIncoming(b_.getInt64(0), start);
    llvm::Value* description = b_.CreateLoad(pointer, b_.CreateInBoundsGEP(pointer, table, i));
    llvm::Value* tensor = b_.CreateLoad(pointer, b_.CreateInBoundsGEP(pointer, tensors, i));
    llvm::Value* data = b_.CreateCall(check, {tensor, description});
    llvm::Value* message = b_.CreateLoad(pointer, description);
    b_.CreateCondBr(b_.CreateIsNull(data), fail, next);
    b_.SetInsertPoint(next);
    b_.CreateStore(data, b_.CreateInBoundsGEP(pointer, pointers, i));
    llvm::Value* following = b_.CreateAdd(i, b_.getInt64(1));
    i->addIncoming(following, next);
    b_.CreateCondBr(b_.CreateICmpULT(following, b_.getInt64(count)), loop, call);
    b_.SetInsertPoint(call);
    b_.CreateRet(b_.CreateCall(module_.getFunction(name + ".raw"), {context, pointers}));
    b_.SetInsertPoint(fail);
    llvm::PHINode* text = b_.CreatePHI(pointer, 2);
    text->addIncoming(wrong_count, start);
    text->addIncoming(message, loop);
    SetError(b_, context, text);
    b_.CreateRet(b_.getInt32(2));
  }

 private:
  llvm::Function* Exported(const std::string& name, std::vector<llvm::Type*> types) {
    llvm::FunctionType* type = llvm::FunctionType::get(b_.getInt32Ty(), types, false);
    return llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
  }

  // Returns the description of an argument for autotune.check, a struct of
  // { ptr message, i32 dtype, i32 ndim, i64 alignment - 1, [ndim x i64] shape }.
  llvm::Constant* Description(const ExpectedArgument& e) {
    std::vector<llvm::Constant*> shape;
    for (int64_t extent : e.shape) shape.push_back(b_.getInt64(extent));
    auto* shape_type = llvm::ArrayType::get(b_.getInt64Ty(), shape.size());
    llvm::Constant* value = llvm::ConstantStruct::getAnon(
        {b_.CreateGlobalString(e.message, "", 0, &module_), b_.getInt32(PackedDlType(e.dtype)),
         b_.getInt32(static_cast<uint32_t>(shape.size())), b_.getInt64(static_cast<uint64_t>(e.alignment - 1)),
         llvm::ConstantArray::get(shape_type, shape)});
    return new llvm::GlobalVariable(module_, value->getType(), true, llvm::GlobalValue::PrivateLinkage, value, "param");
  }

  Modules modules_;
  llvm::Module& module_;  // the cold module (Modules)
  llvm::LLVMContext& context_;
  const LoweredKernel& kernel_;
  const Target& target_;
  llvm::IRBuilder<> b_;
};

}  // namespace

void EmitKernel(Modules modules, const LoweredKernel& kernel, const KernelMetadata& metadata, const Target& target) {
  EntryEmitter emitter(modules, kernel, target);
  emitter.EmitRaw(metadata.name + ".raw", kernel.run);
  if (kernel.prepare) emitter.EmitRaw(metadata.name + ".prepare", *kernel.prepare);
  emitter.EmitChecked();
}

void EmitCheck(llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> b(context);
  llvm::Type *i64 = b.getInt64Ty(), *i32 = b.getInt32Ty(), *pointer = b.getPtrTy();
  llvm::Function* check = DeclareCheck(module);
  llvm::Value *tensor = check->getArg(0), *description = check->getArg(1);
  auto block = [&](const char* label) { return llvm::BasicBlock::Create(context, label, check); };
  llvm::BasicBlock *entry = block("entry"), *fields = block("fields"), *loop = block("loop"), *axis = block("axis"),
                   *next = block("next"), *ok = block("ok"), *bad = block("bad");
  auto at = [&](llvm::Value* base, int offset, llvm::Type* t) {
    return b.CreateLoad(t, b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, offset));
  };
  b.SetInsertPoint(entry);
  b.CreateCondBr(b.CreateIsNull(tensor), bad, fields);
  b.SetInsertPoint(fields);
  llvm::Value* start = b.CreateAdd(b.CreatePtrToInt(at(tensor, kData, pointer), i64), at(tensor, kByteOffset, i64));
  llvm::Value *ndim = at(tensor, kNdim, i32), *shape = at(tensor, kShape, pointer);
  llvm::Value* strides = at(tensor, kStrides, pointer);
  llvm::Value* fits = b.CreateICmpEQ(at(tensor, kDeviceType, i32), b.getInt32(kDlCpu));
  fits = b.CreateAnd(fits, b.CreateICmpEQ(at(tensor, kDtype, i32), at(description, 8, i32)));
  fits = b.CreateAnd(fits, b.CreateICmpEQ(ndim, at(description, 12, i32)));
  fits = b.CreateAnd(fits, b.CreateICmpNE(start, b.getInt64(0)));
  fits = b.CreateAnd(fits, b.CreateIsNull(b.CreateAnd(start, at(description, 16, i64))));
  b.CreateCondBr(fits, loop, bad);
  // Walks the axes from the last to the first. `expected` is the stride of a compact tensor.
  b.SetInsertPoint(loop);
  llvm::PHINode* left = b.CreatePHI(i64, 2);
  llvm::PHINode* expected = b.CreatePHI(i64, 2);
  left->addIncoming(b.CreateZExt(ndim, i64), fields);
  expected->addIncoming(b.getInt64(1), fields);
  llvm::cast<llvm::Instruction>(left->getIncomingValue(0))->moveBefore(fields->getTerminator());
  b.CreateCondBr(b.CreateIsNull(left), ok, axis);
  b.SetInsertPoint(axis);
  llvm::Value* d = b.CreateSub(left, b.getInt64(1));
  llvm::Value* want_shape = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), description, 24);
  llvm::Value* want = b.CreateLoad(i64, b.CreateInBoundsGEP(i64, want_shape, d));
  llvm::Value* extent = b.CreateLoad(i64, b.CreateInBoundsGEP(i64, shape, d));
  llvm::BasicBlock* stride_block = block("stride");
  llvm::Value* any_stride = b.CreateOr(b.CreateIsNull(strides), b.CreateICmpEQ(extent, b.getInt64(1)));
  llvm::BasicBlock* stride_test = block("stride_test");
  b.CreateCondBr(b.CreateICmpEQ(extent, want), stride_test, bad);
  b.SetInsertPoint(stride_test);
  b.CreateCondBr(any_stride, next, stride_block);
  b.SetInsertPoint(stride_block);
  llvm::Value* stride = b.CreateLoad(i64, b.CreateInBoundsGEP(i64, strides, d));
  b.CreateCondBr(b.CreateICmpEQ(stride, expected), next, bad);
  b.SetInsertPoint(next);
  left->addIncoming(d, next);
  expected->addIncoming(b.CreateMul(expected, extent), next);
  b.CreateBr(loop);
  b.SetInsertPoint(ok);
  b.CreateRet(b.CreateIntToPtr(start, pointer));
  b.SetInsertPoint(bad);
  b.CreateRet(llvm::ConstantPointerNull::get(b.getPtrTy()));
}

void EmitMetadata(llvm::Module& module, const ArtifactMetadata& metadata) {
  llvm::Constant* text = llvm::ConstantDataArray::getString(module.getContext(), ToJson(metadata).Dump());
  new llvm::GlobalVariable(module, text->getType(), true, llvm::GlobalValue::ExternalLinkage, text,
                           "autotune.metadata");
}

}  // namespace autotune
