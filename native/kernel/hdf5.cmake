# A parallel HDF5 that was built for the compiler's own MPI: two MPI libraries in one process would not know of each
# other. Sets STRIPEWISE_HDF5_FOUND, _INCLUDE and _LIBRARY; what was tried and why it does not do is in _TRIED.
set(STRIPEWISE_HDF5 AUTO CACHE STRING "Build the kernel with HDF5: ON (an error if there is none), OFF, or AUTO")
set_property(CACHE STRIPEWISE_HDF5 PROPERTY STRINGS AUTO ON OFF)

set(STRIPEWISE_HDF5_FOUND FALSE)
set(STRIPEWISE_HDF5_TRIED "")

# The MPI libraries that a program loads.
function(stripewise_mpi_of program names)
  execute_process(COMMAND ldd ${program} OUTPUT_VARIABLE loaded ERROR_QUIET)
  string(REGEX MATCHALL "libmpi[^ /\n]*\\.so[^ \n]*" found "${loaded}")
  list(REMOVE_DUPLICATES found)
  set(${names} "${found}" PARENT_SCOPE)
endfunction()

function(stripewise_try_hdf5 name include library)
  set(probe ${CMAKE_CURRENT_BINARY_DIR}/hdf5-probe)
  file(WRITE ${probe}.c "#include <hdf5.h>
#ifndef H5_HAVE_PARALLEL
#error this HDF5 is a serial one
#endif
int main(void) { return H5Pset_fapl_mpio(H5Pcreate(H5P_FILE_ACCESS), MPI_COMM_WORLD, MPI_INFO_NULL) < 0; }
")
  try_compile(works ${CMAKE_CURRENT_BINARY_DIR}/hdf5-probe.dir ${probe}.c
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${include}" LINK_LIBRARIES ${library}
    OUTPUT_VARIABLE output COPY_FILE ${probe})
  if(works)
    stripewise_mpi_of(${probe} loaded)
    set(foreign ${loaded})
    list(REMOVE_ITEM foreign ${STRIPEWISE_OWN_MPI})
    if(NOT foreign)
      set(STRIPEWISE_HDF5_FOUND TRUE PARENT_SCOPE)
      set(STRIPEWISE_HDF5_INCLUDE "${include}" PARENT_SCOPE)
      set(STRIPEWISE_HDF5_LIBRARY "${library}" PARENT_SCOPE)
      return()
    endif()
    set(reason "is of another MPI (${foreign})")
  elseif(output MATCHES "is a serial one")
    set(reason "is not parallel")
  elseif(output MATCHES "hdf5\\.h")
    set(reason "has no hdf5.h")
  else()
    set(reason "cannot be linked")
  endif()
  set(STRIPEWISE_HDF5_TRIED "${STRIPEWISE_HDF5_TRIED}; ${name} ${reason}" PARENT_SCOPE)
endfunction()

macro(stripewise_try_hdf5_in prefix includes libraries)
  if(NOT STRIPEWISE_HDF5_FOUND)
    find_library(found_hdf5 hdf5 PATHS ${libraries} NO_DEFAULT_PATH NO_CACHE)
    if(found_hdf5)
      stripewise_try_hdf5("${prefix}" "${includes}" "${found_hdf5}")
    endif()
    unset(found_hdf5)
  endif()
endmacro()

if(NOT STRIPEWISE_HDF5 STREQUAL "OFF")
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/mpi-probe.c "#include <mpi.h>\nint main(void) { return MPI_Init(0, 0); }\n")
  try_compile(own ${CMAKE_CURRENT_BINARY_DIR}/mpi-probe.dir ${CMAKE_CURRENT_BINARY_DIR}/mpi-probe.c
    COPY_FILE ${CMAKE_CURRENT_BINARY_DIR}/mpi-probe)
  stripewise_mpi_of(${CMAKE_CURRENT_BINARY_DIR}/mpi-probe STRIPEWISE_OWN_MPI)
  foreach(named HDF5_ROOT HDF5_DIR HDF5_HOME)
    foreach(prefix "${${named}}" "$ENV{${named}}")
      if(prefix)
        stripewise_try_hdf5_in(${prefix} "${prefix}/include" "${prefix}/lib;${prefix}/lib64")
      endif()
    endforeach()
  endforeach()
  # Cray's wrapper, and modules that set CPATH and LIBRARY_PATH, need nothing named.
  if(NOT STRIPEWISE_HDF5_FOUND)
    stripewise_try_hdf5("the compiler's own hdf5" "" hdf5)
  endif()
  find_program(wrapper h5pcc NO_CACHE)
  file(REAL_PATH ${CMAKE_C_COMPILER} compiler)
  foreach(program "${wrapper}" "${CMAKE_C_COMPILER}" "${compiler}")
    if(program)
      get_filename_component(prefix "${program}" DIRECTORY)
      get_filename_component(prefix "${prefix}" DIRECTORY)
      stripewise_try_hdf5_in(${prefix} "${prefix}/include" "${prefix}/lib;${prefix}/lib64")
    endif()
  endforeach()
  foreach(flavour mpich openmpi) # Debian's
    file(GLOB folders /usr/lib/*/hdf5/${flavour})
    stripewise_try_hdf5_in(libhdf5-${flavour}-dev /usr/include/hdf5/${flavour} "${folders}")
  endforeach()
  if(NOT STRIPEWISE_HDF5_FOUND AND STRIPEWISE_HDF5 STREQUAL "ON")
    message(FATAL_ERROR "no parallel HDF5 of the MPI of ${CMAKE_C_COMPILER} is found${STRIPEWISE_HDF5_TRIED}; "
                        "install it or load its module (HDF5_ROOT names its folder), or leave hdf5 out")
  endif()
endif()
