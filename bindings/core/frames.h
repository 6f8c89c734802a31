// Where a Python thread is, for records of waits (domain/wait_records.h).
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "sync/label.h"

namespace forklift::py {

// The calling thread's frames outside of this package, innermost first: "/srv/load.py:12 in read < main.py:30 in main".
// Needs the interpreter lock.
std::string own_frames();

// Does the program ask for explanations (FORKLIFT_EXPLAIN=1)? Then objects are labelled with the line where they are made,
// "load.py:12", and errors of waits whose time is over carry notes.
bool explains() noexcept;
// Without effect if it does not. Needs the interpreter lock.
void label_with_line(sync::Label& label);

// Names this process in its domain as multiprocessing names it. Needs the interpreter lock.
void name_process_in_domain();

// Tells the core that this interpreter's threads describe themselves. `package`: the folder whose frames are left out.
void install_frames(std::string package);

}  // namespace forklift::py
