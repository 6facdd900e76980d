#include "tests/support/shared_data.h"

#include <cstdlib>
#include <filesystem>

namespace pipedream {

std::string SharedDataDir() {
  namespace fs = std::filesystem;
  if (const char* dir = std::getenv("PIPEDREAM_SHARED")) return dir;
  fs::path beside = fs::path(PIPEDREAM_SOURCE_DIR) / ".." / "shared";
  std::error_code error;
  return fs::is_directory(beside / "oracle", error) ? fs::canonical(beside).string() : "";
}

}  // namespace pipedream
