// Copies of this library in one process. A program and a plugin that each link the static library have one
// each, with tables of its own: a queue that goes from one to the other would be read with the wrong ones.
//
// Each copy carries an ELF note with the place of a word, so that the copies find each other's, whatever
// their release and however their files were loaded.
//
// Thread safety: yes.
#pragma once

#include "forklift/status.h"

namespace forklift::os {

// Marks this copy as the one that is in use. kRefused, with the paths of both files: another one is.
// FORKLIFT_COPIES=separate in the environment allows several.
Status claim_process();

// Takes the mark back: the claim was for something that failed.
void unclaim_process() noexcept;

}  // namespace forklift::os
