# Build rules shared by all folders: the warning and hardening flags, and pepsi_folder(), which makes one folder one
# library target with an include root of its own. Nothing here may name a particular folder.
add_library(pepsi_flags INTERFACE)
target_compile_options(pepsi_flags INTERFACE -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes
  -Wmissing-prototypes -Wformat=2 -Wvla -fno-common -fstack-protector-strong -fno-strict-aliasing)
target_compile_definitions(pepsi_flags INTERFACE _GNU_SOURCE)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(pepsi_flags INTERFACE -fstack-clash-protection -Wlogical-op -Wno-format-truncation)
endif()
if(PEPSI_SANITIZE)
  target_compile_options(pepsi_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  target_link_options(pepsi_flags INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(pepsi_flags INTERFACE PEPSI_SANITIZED=1)
elseif(CMAKE_BUILD_TYPE MATCHES "Rel")
  target_compile_options(pepsi_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
if(PEPSI_FUZZ) # coverage of everything, so that libFuzzer sees into the libraries, too
  target_compile_options(pepsi_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(pepsi_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_link_options(pepsi_flags INTERFACE -Wl,-z,relro,-z,now -Wl,-z,noexecstack)

# pepsi_folder(NAME SOURCES a.c b.c DEPENDS x y): static library pepsi_NAME of the current folder; users write
# #include "NAME/file.h" (proto/<sub> folders: "proto/<sub>/file.h").
function(pepsi_folder NAME)
  cmake_parse_arguments(F "" "" "SOURCES;DEPENDS" ${ARGN})
  set(root ${CMAKE_BINARY_DIR}/include/${NAME})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${root}/${NAME} SYMBOLIC)
  add_library(pepsi_${NAME} STATIC ${F_SOURCES})
  target_include_directories(pepsi_${NAME} PUBLIC ${root})
  target_link_libraries(pepsi_${NAME} PUBLIC ${F_DEPENDS} PRIVATE pepsi_flags)
endfunction()

# pepsi_unit(NAME SOURCES … DEPENDS …): a cmocka program, registered with ctest under unit/NAME.
function(pepsi_unit NAME)
  cmake_parse_arguments(F "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(unit_${NAME} ${F_SOURCES})
  set_target_properties(unit_${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  target_link_libraries(unit_${NAME} PRIVATE ${F_DEPENDS} pepsi_flags PkgConfig::CMOCKA)
  target_compile_definitions(unit_${NAME} PRIVATE PEPSI_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME unit/${NAME} COMMAND unit_${NAME})
  set_tests_properties(unit/${NAME} PROPERTIES TIMEOUT 120)
endfunction()

# pepsi_fuzz(NAME SOURCES … DEPENDS …): one fuzz target. With PEPSI_FUZZ a libFuzzer program; always a replayer
# that runs the kept corpus test/fuzz/corpus/NAME as an ordinary test (test/fuzz/replay.c has its main).
function(pepsi_fuzz NAME)
  cmake_parse_arguments(F "" "" "SOURCES;DEPENDS" ${ARGN})
  if(PEPSI_FUZZ)
    add_executable(fuzz_${NAME} ${F_SOURCES})
    target_compile_options(fuzz_${NAME} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${NAME} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz_${NAME} PRIVATE ${F_DEPENDS} pepsi_flags)
    set_target_properties(fuzz_${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  endif()
  add_executable(replay_${NAME} ${F_SOURCES} ${CMAKE_SOURCE_DIR}/test/fuzz/replay.c)
  target_link_libraries(replay_${NAME} PRIVATE ${F_DEPENDS} pepsi_flags)
  set_target_properties(replay_${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  add_test(NAME fuzz-corpus/${NAME} COMMAND replay_${NAME} ${CMAKE_SOURCE_DIR}/test/fuzz/corpus/${NAME})
  set_tests_properties(fuzz-corpus/${NAME} PROPERTIES TIMEOUT 120)
endfunction()

# pepsi_stage_module(NAME SOURCES …): one loadable stage module, lib/pepsi/modules/NAME.so. It links to the public
# protocol library and to libraries of the field, never to core/.
function(pepsi_stage_module NAME)
  cmake_parse_arguments(F "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${NAME} MODULE ${F_SOURCES})
  set_target_properties(${NAME} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/pepsi/modules)
  target_include_directories(${NAME} PRIVATE ${CMAKE_SOURCE_DIR}/modules/include)
  target_link_libraries(${NAME} PRIVATE pepsi_proto ${F_DEPENDS} pepsi_flags)
  if(NOT PEPSI_SANITIZE)
    target_link_options(${NAME} PRIVATE -Wl,-z,defs)
  endif()
  set(map ${CMAKE_SOURCE_DIR}/modules/sdk/pepsi-stage.map) # the one we ship: one visible symbol
  target_link_options(${NAME} PRIVATE -Wl,--version-script=${map})
  set_target_properties(${NAME} PROPERTIES LINK_DEPENDS ${map})
  install(TARGETS ${NAME} LIBRARY DESTINATION lib/pepsi/modules)
endfunction()
