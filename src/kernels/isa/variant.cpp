// The table of this variant.
#include "kernels/isa/isa.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {

extern const Loops kLoops;
const Loops kLoops = {FORKLIFT_ISA_NAME, unary,           binary, cast, select, reduce, matmul,
                      streaming_unary,   streaming_binary};

}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
