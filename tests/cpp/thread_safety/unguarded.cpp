// expects: writing variable 'entries' requires holding mutex 'journal' exclusively
#include "forklift/lock.h"

namespace {
forklift::Lock journal;
int entries FORKLIFT_GUARDED_BY(journal) = 0;
}  // namespace

int main() { entries = 1; }
