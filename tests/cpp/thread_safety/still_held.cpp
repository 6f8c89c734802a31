// expects: mutex 'journal' is still held at the end of function
#include "forklift/lock.h"

namespace {
forklift::Lock journal;
}  // namespace

int main() { journal.lock(); }
