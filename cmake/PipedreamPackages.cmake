# Everything comes from Debian 12; scripts/setup.sh installs it.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)  # module mode, and before gRPC
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(ONNX CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(OneDNN REQUIRED)  # cmake/FindOneDNN.cmake
if(PIPEDREAM_BUILD_TESTS)
  find_package(GTest CONFIG REQUIRED)
endif()
