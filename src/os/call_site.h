// Where in its program a thread is, for people.
#pragma once

#include <string>

namespace forklift::inline abi_0_1::os {

// The calling thread's frames, innermost first: "put_frame(int)+0x2f < train+0x51c2 < libc.so.6+0x29d90". A function's
// name is known where its symbol is exported (-rdynamic); otherwise it is the file and the offset in it, for addr2line.
// Frames of this library, as far as they can be told, are left out.
std::string call_site();

// The name of a symbol as it is written in C++; as it is where it is none.
std::string demangled(const char* symbol);

}  // namespace forklift::inline abi_0_1::os
