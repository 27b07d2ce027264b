#include "serve/sse.h"

#include <boost/json/serialize.hpp>

namespace ondol::serve {

std::string to_json_line(const boost::json::object& value) {
  const std::string plain = boost::json::serialize(value);
  // Outside ASCII a JSON text has only the letters of its strings, so bytes can be replaced as they
  // stand.
  std::string out;
  out.reserve(plain.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    const std::string_view rest = std::string_view(plain).substr(i);
    if (rest.starts_with("\xC2\x85")) {
      out += "\\u0085";
      i += 1;
    } else if (rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9")) {
      out += rest[2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += plain[i];
    }
  }
  return out;
}

std::string sse_event(const boost::json::object& value) {
  return "data: " + to_json_line(value) + "\n\n";
}

}  // namespace ondol::serve
