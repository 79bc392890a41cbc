# Fetches the source distribution of a Python package that carries a simulator's C++ sources. pip fetches it through
# whatever package index the user has set up; its version is the one in constraints.txt, and its hash is checked, so a
# build is reproducible.
set(HEADRACE_DOWNLOADS "${PROJECT_SOURCE_DIR}/build/downloads" CACHE PATH "Where downloads are kept")

# headrace_source_distribution(<package> <sha256> <what it is> <variable> <given>): sets the variable to the folder of
# the unpacked sources, which is that of the variable <given> where that is not empty
function(headrace_source_distribution package sha256 what variable given)
  if(${given})
    set(${variable} ${${given}} PARENT_SCOPE)
    return()
  endif()
  file(STRINGS ${PROJECT_SOURCE_DIR}/constraints.txt pin REGEX "^${package}==")
  string(REPLACE "${package}==" "" version "${pin}")
  string(REPLACE "ale-py" "ale_py" name "${package}")  # as newer packages name their files
  set(archive ${HEADRACE_DOWNLOADS}/${name}-${version}.tar.gz)
  if(NOT EXISTS ${archive})
    message(STATUS "Downloading ${package} ${version}'s source distribution")
    headrace_download(${package} ${version} "${what}" ${archive} ${given})
  endif()
  file(SHA256 ${archive} found)
  if(NOT found STREQUAL sha256)
    file(REMOVE ${archive})
    message(FATAL_ERROR "${archive} has SHA-256 ${found}, not ${sha256}; it was removed, try again.")
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}-${version})
  if(NOT EXISTS ${folder}/PKG-INFO)
    file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  set(${variable} ${folder} PARENT_SCOPE)
endfunction()

function(headrace_download package version what archive given)
  execute_process(COMMAND ${Python_EXECUTABLE} -m pip --version OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR
      "Fetching ${what} needs pip, and '${Python_EXECUTABLE} -m pip' does not run. "
      "Install pip there, or name an unpacked ${package} ${version} source distribution with ${given}.")
  endif()
  # several builds may fetch it at the same time, and none may see half of it
  string(RANDOM LENGTH 12 unique)
  set(folder ${HEADRACE_DOWNLOADS}/${unique})
  file(MAKE_DIRECTORY ${folder})
  # the user's constraints may be a relative path, and say nothing about a single pinned file
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=PIP_CONSTRAINT --unset=PIP_BUILD_CONSTRAINT
            --unset=PIP_REQUIRE_HASHES --unset=PIP_ONLY_BINARY
            ${Python_EXECUTABLE} -m pip download --no-deps --no-binary ${package} --no-build-isolation
            --disable-pip-version-check --quiet --dest ${folder} ${package}==${version}
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  cmake_path(GET archive FILENAME name)
  if(EXISTS ${folder}/${name})
    file(RENAME ${folder}/${name} ${archive})
  endif()
  file(REMOVE_RECURSE ${folder})
  if(failed OR NOT EXISTS ${archive})
    message(FATAL_ERROR
      "Could not download ${package} ${version}'s source distribution (${what}):\n${output}\n"
      "Without a package index, unpack it yourself and set ${given} to that folder.")
  endif()
endfunction()
