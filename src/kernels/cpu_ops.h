// Thread rule: as ops.h; the team is used by one thread at a time.
#pragma once

#include <memory>

#include "base/thread_team.h"
#include "kernels/ops.h"
#include "simd/isa.h"

namespace ondol::kernels {

/// The operations on this machine's CPU, with the kernels of `isa` (which the CPU must support, see
/// simd::choose_isa), spread over `team`, which must live longer.
std::unique_ptr<Ops> make_cpu_ops(simd::Isa isa, ThreadTeam& team);

/// Whether weights of this type can be multiplied (every format that can be dequantised can also be
/// embedded from).
bool can_multiply(quant::Type type);

}  // namespace ondol::kernels
