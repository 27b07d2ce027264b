#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "chat/template.h"

namespace ondol::chat {

std::string render_line(const ChatTemplate& chat_template, std::string_view json_line) {
  const auto prompt = chat_template.try_render(json_line, nullptr);
  if (prompt) {
    return boost::json::serialize(boost::json::string(prompt->text));
  }
  return boost::json::serialize(boost::json::object{{"error", prompt.error().error().message}});
}

}  // namespace ondol::chat
