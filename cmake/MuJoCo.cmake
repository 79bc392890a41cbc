# Defines the target `mujoco`: the headers and the library that the `mujoco` wheel holds. The extension
# module finds the library because Python has loaded it before (`import mujoco`), so there is one copy.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
          "from importlib.util import find_spec; print(find_spec('mujoco').submodule_search_locations[0])"
  OUTPUT_VARIABLE mujoco_wheel OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  message(FATAL_ERROR
    "The MuJoCo tasks need the mujoco package (pip install mujoco), and '${Python_EXECUTABLE}' has none.")
endif()
file(GLOB mujoco_library ${mujoco_wheel}/libmujoco.so.*)

add_library(mujoco SHARED IMPORTED)
set_target_properties(mujoco PROPERTIES
  IMPORTED_LOCATION ${mujoco_library}
  INTERFACE_INCLUDE_DIRECTORIES ${mujoco_wheel}/include)
