#include "forklift/dlpack.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "support/status_check.h"
#include "tensor/dlpack.h"

namespace forklift::dlpack {
namespace {

using test::code_of;

// A producer of a foreign library: counts how often it is asked to delete.
template <class Managed>
struct Foreign {
  Managed managed{};
  std::vector<double> memory = std::vector<double>(24);
  std::vector<std::int64_t> shape{4, 6};
  std::vector<std::int64_t> strides{6, 1};
  int deleted = 0;

  Foreign() {
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<double>(i);
    managed.tensor = {memory.data(), {kCpu, 0}, 2, {kFloat, 64, 1}, shape.data(), strides.data(), 0};
    managed.manager_context = this;
    managed.deleter = [](Managed* self) { ++static_cast<Foreign*>(self->manager_context)->deleted; };
    if constexpr (requires { managed.version; }) managed.version = {1, 1};
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
};
using New = Foreign<ManagedTensorVersioned>;
using Old = Foreign<ManagedTensor>;

TEST(DlpackType, BothWays) {
  for (std::uint8_t code = kFirstDType; code <= kLastDType; ++code) {
    const auto dtype = static_cast<DType>(code);
    const DataType type = to_dlpack(dtype);
    EXPECT_EQ(type.bits, item_size(dtype) * 8);
    EXPECT_EQ(type.lanes, 1);
    EXPECT_EQ(from_dlpack(type), dtype);
    EXPECT_FALSE(from_dlpack({type.code, type.bits, 2}));
    EXPECT_FALSE(from_dlpack({type.code, type.bits, 0}));
  }
  EXPECT_FALSE(from_dlpack({kFloat, 128, 1}));
  EXPECT_FALSE(from_dlpack({kInt, 4, 1}));
  EXPECT_FALSE(from_dlpack({kOpaque, 64, 1}));
  EXPECT_FALSE(from_dlpack({99, 8, 1}));  // no type of DLPack
  EXPECT_FALSE(from_dlpack({kBool, 1, 1}));
}

TEST(DlpackType, NamesOfTypesThatHaveNoDtypeHere) {
  EXPECT_EQ(type_name({kFloat, 32, 1}), "float32");
  EXPECT_EQ(type_name({kFloat8E4M3Fn, 8, 1}), "float8_e4m3fn");
  EXPECT_EQ(type_name({kFloat8E8M0Fnu, 8, 1}), "float8_e8m0fnu");
  EXPECT_EQ(type_name({kFloat8E5M2, 16, 1}), "");
  EXPECT_EQ(type_name({kFloat8E5M2, 8, 4}), "");
  EXPECT_EQ(type_name({kInt, 4, 1}), "");
  EXPECT_EQ(type_name({200, 8, 1}), "");
}

TEST(DlpackImport, TakesOverAndDeletesOnce) {
  New foreign;
  {
    Tensor tensor = import_versioned(&foreign.managed);
    EXPECT_EQ(tensor.dtype(), DType::kFloat64);
    EXPECT_EQ(tensor.shape(), (Dims{4, 6}));
    EXPECT_EQ(tensor.data<double>(), foreign.memory.data());
    EXPECT_FALSE(tensor.readonly());
    Tensor corner = tensor.select(0, 3).select(0, 5);
    tensor = Tensor();
    EXPECT_EQ(foreign.deleted, 0);
    EXPECT_EQ(corner.at<double>({}), 23.0);
  }
  EXPECT_EQ(foreign.deleted, 1);

  Old old;
  EXPECT_EQ(import_legacy(&old.managed).at<double>({1, 1}), 7.0);
  EXPECT_EQ(old.deleted, 1);
  Old without;
  without.managed.deleter = nullptr;
  EXPECT_NO_THROW((void)import_legacy(&without.managed));
}

TEST(DlpackImport, HonoursReadOnly) {
  New foreign;
  foreign.managed.flags = kReadOnly | kIsCopied;
  EXPECT_TRUE(import_versioned(&foreign.managed).readonly());
}

TEST(DlpackImport, EveryKindOfView) {
  New f;
  f.managed.tensor.strides = nullptr;  // C order
  EXPECT_EQ(import_versioned(&f.managed).at<double>({2, 3}), 15.0);

  f.managed.tensor.strides = f.strides.data();
  f.strides = {-6, -1};  // backwards, from the last element
  f.managed.tensor.strides = f.strides.data();
  f.managed.tensor.byte_offset = 23 * 8;
  EXPECT_EQ(import_versioned(&f.managed).at<double>({0, 1}), 22.0);
  EXPECT_EQ(import_versioned(&f.managed).at<double>({3, 5}), 0.0);

  f.strides = {0, 1};
  f.managed.tensor.byte_offset = 8;
  EXPECT_EQ(import_versioned(&f.managed).at<double>({3, 0}), 1.0);

  f.managed.tensor.ndim = 0;
  f.managed.tensor.shape = nullptr;
  f.managed.tensor.strides = nullptr;
  const Tensor scalar = import_versioned(&f.managed);
  EXPECT_EQ(scalar.ndim(), 0u);
  EXPECT_EQ(scalar.at<double>({}), 1.0);
  f.managed.tensor.device.type = kCudaHost;
  EXPECT_NO_THROW((void)import_versioned(&f.managed));
}

TEST(DlpackImport, NothingIsAddressed) {
  New f;
  f.shape = {0, 6};
  f.managed.tensor.shape = f.shape.data();
  f.managed.tensor.data = nullptr;
  Tensor tensor = import_versioned(&f.managed);
  EXPECT_EQ(tensor.numel(), 0);
  tensor = Tensor();
  EXPECT_EQ(f.deleted, 1);
}

// Each refusal names its kind and leaves the managed tensor to the caller.
TEST(DlpackImport, Refusals) {
  const auto refused = [](auto&& spoil) {
    New f;
    spoil(f);
    const Code code = tensor::import_versioned(&f.managed).code();
    EXPECT_EQ(code_of([&] { return import_versioned(&f.managed); }), code);
    EXPECT_EQ(f.deleted, 0);
    return code;
  };
  EXPECT_EQ(code_of([] { return import_versioned(nullptr); }), Code::kInvalid);
  EXPECT_EQ(code_of([] { return import_legacy(nullptr); }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.managed.version.major = 2; }), Code::kVersion);
  EXPECT_EQ(refused([](New& f) { f.managed.version.major = 0; }), Code::kVersion);
  EXPECT_EQ(refused([](New& f) { f.managed.tensor.device = {kCudaManaged, 0}; }), Code::kUnsupported);
  EXPECT_EQ(refused([](New& f) { f.managed.tensor.device.type = 99; }), Code::kUnsupported);
  EXPECT_EQ(refused([](New& f) { f.managed.tensor.dtype.lanes = 4; }), Code::kUnsupported);
  EXPECT_EQ(refused([](New& f) { f.managed.tensor.dtype = {kOpaque, 64, 1}; }), Code::kUnsupported);
  EXPECT_EQ(refused([](New& f) { f.managed.tensor.ndim = -1; }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.managed.tensor.ndim = 65; }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.managed.tensor.shape = nullptr; }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.managed.tensor.data = nullptr; }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.shape[0] = -4; }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.shape[0] = std::numeric_limits<std::int64_t>::max(); }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.strides[0] = std::numeric_limits<std::int64_t>::min(); }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.strides[0] = std::int64_t{1} << 60; }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.managed.tensor.byte_offset = UINT64_MAX; }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.strides[0] = -(std::int64_t{1} << 56); }), Code::kInvalid);
  EXPECT_EQ(refused([](New& f) { f.managed.tensor.byte_offset = 4; }), Code::kUnsupported);  // misaligned
}

template <class Managed>
void check_export(Managed* managed, const Tensor& tensor) {
  const PlainTensor& plain = managed->tensor;
  EXPECT_EQ(plain.data, tensor.raw());
  EXPECT_EQ(plain.byte_offset, 0u);
  EXPECT_EQ(plain.device.type, kCpu);
  EXPECT_EQ(plain.ndim, static_cast<std::int32_t>(tensor.ndim()));
  ASSERT_NE(plain.shape, nullptr);
  ASSERT_NE(plain.strides, nullptr);
  EXPECT_EQ(Dims(DimSpan(plain.shape, tensor.ndim())), tensor.shape());
  EXPECT_EQ(Dims(DimSpan(plain.strides, tensor.ndim())), tensor.strides());
  managed->deleter(managed);
}

TEST(DlpackExport, DescribesTheTensorAndKeepsItAlive) {
  auto storage = Storage::heap(4 * 60);
  std::weak_ptr<Storage> watch = storage;
  Tensor cube = Tensor::wrap(std::move(storage), DType::kFloat32, {3, 4, 5});
  for (const Tensor& tensor : {cube, cube.transpose(0, 2), cube.slice(1, {}, {}, -1), cube.narrow(0, 1, 0),
                               cube.narrow(0, 1, 1).narrow(1, 1, 1).narrow(2, 1, 1).reshape({})}) {
    check_export(export_versioned(tensor), tensor);
    check_export(export_legacy(tensor), tensor);
  }
  ManagedTensorVersioned* managed = export_versioned(cube);
  cube = Tensor();
  EXPECT_FALSE(watch.expired());
  managed->deleter(managed);
  EXPECT_TRUE(watch.expired());
  check_export(export_versioned(Tensor()), Tensor());
}

TEST(DlpackExport, Flags) {
  const Tensor tensor = Tensor::wrap(Storage::heap(8), DType::kInt64, {1});
  const auto flags = [](ManagedTensorVersioned* managed) {
    const std::uint64_t result = managed->flags;
    EXPECT_EQ(managed->version.major, 1u);
    managed->deleter(managed);
    return result;
  };
  EXPECT_EQ(flags(export_versioned(tensor)), 0u);
  EXPECT_EQ(flags(export_versioned(tensor.as_readonly())), kReadOnly);
  EXPECT_EQ(flags(export_versioned(tensor, true)), kIsCopied);
  EXPECT_EQ(code_of([&] { return export_legacy(tensor.as_readonly()); }), Code::kUnsupported);
}

TEST(Dlpack, ThereAndBack) {
  Tensor tensor = Tensor::wrap(Storage::heap(4 * 60), DType::kFloat32, {3, 4, 5});
  tensor.fill(2.5f);
  const Tensor view = tensor.slice(2, {}, {}, -2).transpose(0, 1);
  Tensor back = import_versioned(export_versioned(view));
  EXPECT_TRUE(back.same_layout(view));
  EXPECT_EQ(back.raw(), view.raw());
  back.fill(1.0f);
  EXPECT_EQ(tensor.at<float>({0, 0, 0}), 1.0f);
  EXPECT_EQ(tensor.at<float>({0, 0, 1}), 2.5f);
}

}  // namespace
}  // namespace forklift::dlpack
