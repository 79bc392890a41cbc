# Defines the target `box2d`: Box2D 2.3 as Gymnasium's environments use it, compiled from box2d-py's source
# distribution. An unpacked copy can be named with -DHEADRACE_BOX2D_SOURCE=… instead. A few lines are altered, and none of what they
# compute.
set(HEADRACE_BOX2D_SOURCE "" CACHE PATH "Unpacked box2d-py source distribution; empty: download it")
include(SourceDistribution)
headrace_source_distribution(box2d-py bdacfbbc56079bb317548efe49d3d5a86646885cc27f4a2ee97e4b2960921ab7
  "Box2D's sources" box2d_source HEADRACE_BOX2D_SOURCE)
set(box2d_altered ${CMAKE_CURRENT_BINARY_DIR}/altered)
file(GLOB box2d_sources
  ${box2d_source}/Box2D/Common/*.cpp ${box2d_source}/Box2D/Collision/*.cpp ${box2d_source}/Box2D/Collision/Shapes/*.cpp
  ${box2d_source}/Box2D/Dynamics/*.cpp ${box2d_source}/Box2D/Dynamics/Contacts/*.cpp
  ${box2d_source}/Box2D/Dynamics/Joints/*.cpp)

# headrace_alter(<file> [<text> <replacement>]…): the file with these replacements takes the original's place
function(headrace_alter file)
  file(READ ${box2d_source}/Box2D/${file} content)
  foreach(i RANGE 1 ${ARGC} 2)
    math(EXPR next "${i} + 1")
    if(next LESS ARGC)
      string(FIND "${content}" "${ARGV${i}}" at)
      if(at EQUAL -1)
        message(FATAL_ERROR "Box2D's ${file} has no '${ARGV${i}}': is it of another version?")
      endif()
      string(REPLACE "${ARGV${i}}" "${ARGV${next}}" content "${content}")
    endif()
  endforeach()
  set(content "// Altered for Headrace by cmake/Box2D.cmake\n${content}")
  file(CONFIGURE OUTPUT ${box2d_altered}/Box2D/${file} CONTENT "@content@" @ONLY)
  if(file MATCHES "cpp$")
    list(REMOVE_ITEM box2d_sources ${box2d_source}/Box2D/${file})
    list(APPEND box2d_sources ${box2d_altered}/Box2D/${file})
    set(box2d_sources ${box2d_sources} PARENT_SCOPE)
  endif()
endfunction()

# a violated assertion is an exception of C++, not of Python
headrace_alter(Common/b2Settings.h
  "#define USE_EXCEPTIONS" "#include <stdexcept>"
  "#define b2Assert(A) assert(A)" "#define b2Assert(A) if (!(A)) throw std::runtime_error(\"Box2D: \" #A)")
# counters that every thread would write
headrace_alter(Collision/b2Distance.cpp "int32 b2_gjkCalls" "static thread_local int32 b2_gjkCalls")
headrace_alter(Collision/b2TimeOfImpact.cpp
  "float32 b2_toiTime" "static thread_local float32 b2_toiTime"
  "int32 b2_toiCalls" "static thread_local int32 b2_toiCalls"
  "int32 b2_toiRootIters" "static thread_local int32 b2_toiRootIters")
# A step passes over all bodies five times, most of them terrain. The list has the newest first, and terrain is made before
# what moves on it (scene.hpp): these passes end at the first static body. Statics have no forces, and lose their flags
# after each island; what the last impacts leave in their sweeps is cleared through their contacts, which last until the
# next step.
headrace_alter(Dynamics/b2World.cpp
  "; b; b = b->m_next)
	{
		b->m_flags" "; b && b->m_type != b2_staticBody; b = b->m_next)
	{
		b->m_flags"
  "; seed; seed" "; seed && seed->m_type != b2_staticBody; seed"
  "; b; b = b->GetNext())
		{
			// If a body was not" "; b && b->m_type != b2_staticBody; b = b->GetNext())
		{
			// If a body was not"
  "; b; b = b->m_next)
		{
			b->m_flags" "; b && b->m_type != b2_staticBody; b = b->m_next)
		{
			b->m_flags"
  "m_stepComplete = true;
			break;" "m_stepComplete = true;
			for (b2Contact* c = m_contactManager.m_contactList; c; c = c->m_next)
				for (b2Fixture* fixture : {c->GetFixtureA(), c->GetFixtureB()}) fixture->GetBody()->m_sweep.alpha0 = 0.0f;
			break;"
  "; body; body" "; body && body->m_type != b2_staticBody; body")
# where islands begin to iterate, several may do so side by side
headrace_alter(Dynamics/b2Island.cpp
  "#include <Box2D/Dynamics/b2Island.h>"
  "#include <Box2D/Dynamics/b2Island.h>\n#include \"iterations.hpp\"\n#include \"together.hpp\""
  "	for (int32 i = 0; i < step.velocityIterations; ++i)"
  "	headrace::box2d::Iterations iterations{
		m_bodies, m_velocities, m_bodyCount, m_joints, m_jointCount, &contactSolver, step};
	if (!headrace::box2d::done_together(iterations))
	for (int32 i = 0; i < step.velocityIterations; ++i)"
  "	for (int32 i = 0; i < subStep.velocityIterations; ++i)"
  "	headrace::box2d::Iterations iterations{
		m_bodies, m_velocities, m_bodyCount, m_joints, m_jointCount, &contactSolver, subStep};
	if (!headrace::box2d::done_together(iterations))
	for (int32 i = 0; i < subStep.velocityIterations; ++i)")

add_library(box2d STATIC ${box2d_sources})
target_include_directories(box2d SYSTEM PUBLIC ${box2d_altered} ${box2d_source})
target_include_directories(box2d PRIVATE ${PROJECT_SOURCE_DIR}/native/box2d)
set_source_files_properties(${box2d_source}/Box2D/Common/b2Timer.cpp PROPERTIES COMPILE_OPTIONS
  "-U__linux__;-U__APPLE__")  # nobody reads the times
target_compile_options(box2d PRIVATE -w)
# small files: most of the time goes into the headers of each
set_target_properties(box2d PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
