// What a test may ask of the fake CUDA driver besides the driver's own functions.
//
//   setenv("FORKLIFT_FAKE_CUDA_LAZY", "1", 1);                      // before the library is loaded
//   void* library = dlopen(FORKLIFT_TEST_FAKE_CUDA, RTLD_NOW);      // .../tests/fake_cuda/libcuda.so.1
//   auto fail = reinterpret_cast<decltype(&fakeCudaFailFunction)>(dlsym(library, "fakeCudaFailFunction"));
//   fail("cuMemCreate", 2, 2);                                      // the second cuMemCreate from now: out of memory
//   ... the code under test ...
//   FakeCudaLive live;
//   look(&live);                                                    // fakeCudaLive: what has leaked
//
// The library is a CUDA driver whose device memory is memory of this machine behind descriptors: it can be exported,
// passed on, mapped, and it dies with its last holder. Device addresses are reserved without access, so that the CPU
// cannot read device memory by accident. README.md in this folder has the environment variables and says what
// differs from NVIDIA's driver.
//
// Thread safety: all functions. Fork: a child of an initialised process gets CUDA_ERROR_NOT_INITIALIZED from the
// driver's functions; those below work in it.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// What this process has made and not given back.
struct FakeCudaLive {
  long contexts;          // primary contexts that are retained
  long allocations;       // by cuMemAlloc
  long allocation_bytes;  // of these, as asked for
  long handles;           // allocations of virtual memory with a handle that is not released
  long physical;          // allocations that are alive here in any way: handles, mappings, cuMemAlloc, IPC
  long physical_bytes;    // of these
  long reservations;      // by cuMemAddressReserve
  long mappings;          // by cuMemMap
  long ipc_opened;        // calls of cuIpcOpenMemHandle that are not closed
  long streams;           // by cuStreamCreate
  long events;            // by cuEventCreate and cuIpcOpenEventHandle
  long modules;           // by cuModuleLoadData
  long host_ranges;       // by cuMemHostAlloc and cuMemHostRegister
  long host_bytes;        // of these
  long pending;           // operations that are queued and not done
};
void fakeCudaLive(struct FakeCudaLive* live);

// Calls of the driver in this process so far. Not counted: cuGetErrorName, cuGetErrorString, cuGetProcAddress.
long fakeCudaCalls(void);
// Calls in this process since it was forked from one that had initialised the driver.
long fakeCudaForkedCalls(void);

// The call that comes as `call_number`th from now (1: the next one) fails with `error` and does nothing else.
void fakeCudaFailAt(long call_number, int error);
// The nth call of the function from now fails with `error`; "cuMemAlloc", without the suffix of its version.
void fakeCudaFailFunction(const char* name, long nth, int error);
// The context is unusable from now on: each call that is counted gives the error. 0 ends it.
void fakeCudaPoison(int error);
// What the end of the process does to all that it has of the driver's: contexts, memory, streams, events, modules. A
// poison ends, too. For a test of a poisoned context, after which nothing can be given back.
void fakeCudaReset(void);

// Copies device memory as it is now, without a call of the driver; 0 if the range is not mapped as a whole.
int fakeCudaPeek(unsigned long long device, void* host, size_t bytes);

// Each byte of memory from cuIpcOpenMemHandle reads so after its origin has freed it or ended.
#define FAKE_CUDA_FREED_BYTE 0xDB

#ifdef __cplusplus
}
#endif
