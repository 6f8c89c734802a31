// expects: forklift: this is a queue of another type
#include <string>

#include "forklift/queue.h"

void look(const forklift::Queue<int>& numbers) { forklift::Queue<std::string> words(numbers); }
