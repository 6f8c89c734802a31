#include "inspect/json.h"

#include <cmath>
#include <cstdio>

#include "inspect/slice_text.h"

namespace forklift::inline abi_0_1::inspect {

void Json::write(double value) {
  if (!std::isfinite(value)) {
    text_ += "null";
    return;
  }
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", value);
  text_ += digits;
}

void Json::write(std::string_view value) {
  const std::string text = utf8(value);
  text_ += '"';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char each = text[at];
    // U+2028 and U+2029 end lines in JavaScript.
    const bool line_end = text.compare(at, 2, "\xe2\x80") == 0 && at + 2 < text.size() &&
                          (text[at + 2] == '\xa8' || text[at + 2] == '\xa9');
    if (each == '"' || each == '\\') {
      text_ += '\\';
      text_ += each;
    } else if (line_end) {
      text_ += text[at + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      at += 2;
    } else if (static_cast<unsigned char>(each) < 0x20 || each == '<' || each == '>' || each == '&' ||
               each == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(each));
      text_ += escaped;
    } else {
      text_ += each;
    }
  }
  text_ += '"';
}

}  // namespace forklift::inline abi_0_1::inspect
