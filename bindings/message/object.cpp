#include "bindings/message/object.h"

#include "bindings/core/errors.h"
#include "bindings/message/native.h"
#include "bindings/message/pickling.h"
#include "message/transport.h"

namespace forklift::py {

bool encode_object(PyObject* object, MessageWriter& writer) {
  switch (encode_native(object, writer)) {
    case Encoded::kDone: return true;
    case Encoded::kFailed: return false;
    case Encoded::kUnsupported: break;
  }
  if (encode_pickle(object, writer)) return true;
  const KeepError keep;
  writer.clear();
  return false;
}

bool encode_last_use(PyObject* object, MessageWriter& writer) {
  return encode_given_array(object, writer) || encode_object(object, writer);
}

PyObject* decode_object(MessageReader& reader) {
  if (!reader.unopened) return raise(reader.unopened);
  switch (reader.message.codec()) {
    case message::kNativeCodec: return decode_native(reader);
    case message::kPickleCodec: return decode_pickle(reader);
    default: return corrupt_message("it has a codec that is not Python's");
  }
}

}  // namespace forklift::py
