# What the files of one instruction set are compiled with, besides the machine's baseline: ONDOL_ISA_FLAGS_<name> for
# each name of ONDOL_ISAS (names as in src/simd/isa.h; the reference, scalar, needs none).
set(ONDOL_ISAS "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(ONDOL_ISAS avx2 avxvnni avx512 avx512vnni)
  set(ONDOL_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
  set(ONDOL_ISA_FLAGS_avxvnni ${ONDOL_ISA_FLAGS_avx2} -mavxvnni)
  set(ONDOL_ISA_FLAGS_avx512 ${ONDOL_ISA_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  # GCC's own 512-bit header begins some results as undefined, and GCC then warns of it.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND ONDOL_ISA_FLAGS_avx512 -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
  set(ONDOL_ISA_FLAGS_avx512vnni ${ONDOL_ISA_FLAGS_avx512} -mavx512vnni)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(ONDOL_ISAS neon)
  set(ONDOL_ISA_FLAGS_neon -march=armv8.2-a+dotprod)
endif()
