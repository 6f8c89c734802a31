// Functions of many numbers at once, from the C library's libmvec (x86-64, glibc 2.22 and newer).
//
//   void* exp16 = vector_function("exp", false, true, 1);      // __m512 (*)(__m512), or null
//
// The library is loaded when it is first asked for, and found by name, so that a C library without it, or with fewer
// functions, is no error: the loops call the ordinary functions then. The results are within 4 units in the last place
// (the C library's manual, "Errors in Math Functions"), and special values are those of the ordinary functions.
//
// Thread safety: yes.
#pragma once

namespace forklift::inline abi_0_1::kernels {

// For floats or doubles, of AVX-512 (64 bytes at once) or AVX2 (32). `operands` is 1 or 2. Null: there is none.
void* vector_function(const char* name, bool is_double, bool avx512, int operands) noexcept;

}  // namespace forklift::inline abi_0_1::kernels
