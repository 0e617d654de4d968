// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause
//
// An operator plugin for ADIOS2 2.12 or later: each block of a variable becomes a frame of h5lossy.
// docs/howto/simulations.md says how to build and use it.

#include <adios2/plugin/PluginOperatorInterface.h>
#include <h5lossy.h>

#include <charconv>
#include <optional>
#include <stdexcept>
#include <string>

namespace {

using adios2::DataType;
using adios2::Params;

struct Type {
  uint32_t value_class;
  uint32_t bytes;
};

std::optional<Type> type_of(DataType type) {
  switch (type) {
    case DataType::Float:
      return Type{H5L_CLASS_FLOAT, 4};
    case DataType::Double:
      return Type{H5L_CLASS_FLOAT, 8};
    case DataType::FloatComplex:
      return Type{H5L_CLASS_COMPLEX, 8};
    case DataType::DoubleComplex:
      return Type{H5L_CLASS_COMPLEX, 16};
    case DataType::UInt8:
      return Type{H5L_CLASS_UNSIGNED, 1};
    case DataType::UInt16:
      return Type{H5L_CLASS_UNSIGNED, 2};
    case DataType::UInt32:
      return Type{H5L_CLASS_UNSIGNED, 4};
    case DataType::UInt64:
      return Type{H5L_CLASS_UNSIGNED, 8};
    case DataType::Int8:
      return Type{H5L_CLASS_SIGNED, 1};
    case DataType::Int16:
      return Type{H5L_CLASS_SIGNED, 2};
    case DataType::Int32:
      return Type{H5L_CLASS_SIGNED, 4};
    case DataType::Int64:
      return Type{H5L_CLASS_SIGNED, 8};
    default:
      return {};
  }
}

void require(h5l_status status, const h5l_message& message) {
  if (status != H5L_OK) throw std::runtime_error(std::string("h5lossy: ") + message.text);
}

uint32_t codec_of(const std::string& name) {
  if (name == "auto") return H5L_CODEC_AUTO;
  std::string all = "auto";
  for (uint32_t codec = H5L_CODEC_PFPL; h5l_codec_name(codec); ++codec) {
    if (name == h5l_codec_name(codec)) return codec;
    all += std::string(", ") + h5l_codec_name(codec);
  }
  throw std::invalid_argument("h5lossy: codec is one of " + all + ", got " + name);
}

// The parameters of DefineOperator. One of them is a bound; a reader has none.
std::optional<h5l_params> params_of(const Params& given) {
  static const std::pair<const char*, uint32_t> kinds[] = {
      {"absolute", H5L_BOUND_ABSOLUTE},
      {"pointwise_relative", H5L_BOUND_POINTWISE_RELATIVE},
      {"range_relative", H5L_BOUND_RANGE_RELATIVE},
      {"lossless", H5L_BOUND_LOSSLESS},
  };
  h5l_params params{};
  int bounds = 0;
  for (const auto& [name, value] : given) {
    if (name == "pluginname" || name == "pluginlibrary") continue;  // as ADIOS2 spells them
    if (name == "codec") {
      params.codec = codec_of(value);
      continue;
    }
    bool is_bound = false;
    for (const auto& [kind_name, kind] : kinds) {
      if (name != kind_name) continue;
      is_bound = true;
      params.bound_kind = kind;
      if (kind == H5L_BOUND_LOSSLESS) continue;
      const char* const end = value.data() + value.size();
      const auto parsed = std::from_chars(value.data(), end, params.bound);
      if (parsed.ec != std::errc() || parsed.ptr != end)
        throw std::invalid_argument("h5lossy: " + name + " is a number, got " + value);
    }
    if (!is_bound)
      throw std::invalid_argument(
          "h5lossy: the parameters are codec, absolute, pointwise_relative, range_relative and "
          "lossless, got " +
          name);
    ++bounds;
  }
  if (bounds > 1) throw std::invalid_argument("h5lossy: give one bound, got several");
  return bounds ? std::optional(params) : std::nullopt;
}

class Operator final : public adios2::plugin::PluginOperatorInterface {
 public:
  explicit Operator(const Params& parameters) : PluginOperatorInterface(parameters), m_params(params_of(parameters)) {}

  bool IsDataTypeValid(DataType type) const override { return type_of(type).has_value(); }

  // `out` has room for 128 bytes more than the values take, and a frame needs 40.
  size_t Operate(const char* in, const adios2::Dims&, const adios2::Dims& shape, DataType data_type,
                 char* out) override {
    if (!m_params) throw std::invalid_argument("h5lossy: give a bound, for example absolute=1e-3");
    h5l_params params = *m_params;
    const Type type = type_of(data_type).value();
    params.value_class = type.value_class;
    params.value_bytes = type.bytes;
    size_t bytes = type.bytes;
    for (const size_t extent : shape) {
      bytes *= extent;
      if (extent == 1) continue;
      // Of more than eight dimensions, the leading ones are one.
      if (params.rank == H5L_MAX_RANK) {
        params.shape[0] *= params.shape[1];
        for (int i = 1; i + 1 < H5L_MAX_RANK; ++i) params.shape[i] = params.shape[i + 1];
        --params.rank;
      }
      params.shape[params.rank++] = static_cast<uint32_t>(extent);
    }
    const size_t capacity = h5l_max_encoded_size(bytes);
    if (capacity == 0)
      throw std::invalid_argument("h5lossy: a block must be smaller than 4 GiB - 40; make more of them");
    size_t frame_bytes = 0;
    h5l_message message;
    require(h5l_encode(&params, in, bytes, out, capacity, &frame_bytes, &message), message);
    return frame_bytes;
  }

  size_t InverseOperate(const char* in, size_t frame_bytes, char* out) override {
    h5l_frame_info info;
    h5l_message message;
    require(h5l_inspect(in, frame_bytes, &info, &message), message);
    require(h5l_decode(in, frame_bytes, out, info.raw_bytes, &message), message);
    return info.raw_bytes;
  }

 private:
  const std::optional<h5l_params> m_params;
};

}  // namespace

extern "C" {
adios2::plugin::PluginOperatorInterface* OperatorCreate(const Params& parameters) { return new Operator(parameters); }
void OperatorDestroy(adios2::plugin::PluginOperatorInterface* object) { delete object; }
}
