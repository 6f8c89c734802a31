// Detects several copies of this library in one process. A program and a plugin that each link the static
// library have one copy each, and each copy has its own tables: a queue that is passed from one copy to the
// other would be read with the wrong tables.
//
// Each copy carries an ELF note that tells where its in-use word lies. By these notes the copies find each
// other's words, whatever their releases are and however their files were loaded.
//
// Thread safety: yes.
#pragma once

#include "forklift/status.h"

namespace forklift::inline abi_0_1::os {

// Marks this copy as the one in use. kRefused, with the paths of both files: another copy is in use.
// FORKLIFT_COPIES=separate in the environment allows several copies.
Status claim_process();

// Removes the mark, after whatever it was claimed for has failed.
void unclaim_process() noexcept;

}  // namespace forklift::inline abi_0_1::os
