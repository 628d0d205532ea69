// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Files under tests/golden/v1/torch were written by torch (make.py beside them).
#include "tenplex/formats/torch/torch_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tenplex/base/crc32.h"
#include "tenplex/formats/state/flatten.h"
#include "tenplex/formats/torch/torch_item.h"
#include "tenplex/formats/torch/torch_pickle_reader.h"
#include "tenplex/formats/torch/zip_archive.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/ptc/explicit_collection.h"

namespace tenplex {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file_text(const std::string& below_root) {
  const auto path = std::filesystem::path(below_root);
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.good()) << path;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string golden(const std::string& name) { return file_text("tests/golden/v1/torch/" + name); }

struct Opened {
  explicit Opened(std::string bytes) {
    files.put_file("/f.pt", std::move(bytes));
    result = open_torch(files, "/f.pt", {});
  }
  const CheckpointReader& reader() const { return **result; }
  const CheckpointInfo& info() const { return reader().info(); }
  std::string error() const { return result ? "no error" : result.error().to_string(); }

  // Elements of a tensor, row-major, each as its bytes.
  std::string elements(std::size_t tensor) const {
    const TensorInfo& info_of = info().tensors[tensor];
    const auto location = reader().locate(tensor);
    EXPECT_TRUE(location) << location.error().to_string();
    const std::int64_t width = size_bytes(info_of.dtype);
    std::string bytes;
    Dims index = Dims::filled(info_of.shape.rank(), 0);
    for (std::int64_t count = volume(info_of.shape); count > 0; --count) {
      std::int64_t at = location->offset_bytes;
      for (int dim = 0; dim < index.rank(); ++dim) at += index[dim] * location->strides[dim] * width;
      bytes += *read_string(**reader().file(0), at, width);
      for (int dim = index.rank(); dim-- > 0 && ++index[dim] == info_of.shape[dim];) index[dim] = 0;
    }
    return bytes;
  }
  std::vector<float> floats(std::size_t tensor) const {
    const std::string bytes = elements(tensor);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  MemoryFileSystem files;
  Result<std::unique_ptr<CheckpointReader>> result = internal_error("not opened");
};

// The file that the writer makes of `source`, filled element by element.
Result<std::string> written(const Opened& source) {
  const CheckpointInfo& info = source.info();
  ExplicitCollectionBuilder builder(info.tensors, 1, {});
  for (std::size_t tensor = 0; tensor < info.tensors.size(); ++tensor)
    TENPLEX_TRY(builder.add(DeviceId(0), TensorId(tensor), whole_tensor(info.tensors[tensor].shape)));
  TENPLEX_ASSIGN_OR_RETURN(const auto target, std::move(builder).finish());
  WriteRequest request;
  request.source = &info;
  request.target = target.get();
  request.target_name = "views.pt";
  const auto writer = make_torch_writer();
  TENPLEX_ASSIGN_OR_RETURN(const OutputPlan plan, writer->prepare(request));
  std::string file;
  std::vector<std::uint32_t> crcs;
  for (std::size_t index = 0; index < plan.files[0].segments.size(); ++index) {
    const Segment& segment = plan.files[0].segments[index];
    std::string bytes(static_cast<std::size_t>(segment.size_bytes), '\0');
    if (segment.kind == Segment::Kind::kLiteral) {
      TENPLEX_ASSIGN_OR_RETURN(bytes, writer->literal(0, index, crcs));
      EXPECT_EQ(static_cast<std::int64_t>(bytes.size()), segment.size_bytes);
      crcs.push_back(0);
    } else {
      std::vector<StorageView> views = {
          {segment.tensor, 0, row_major_strides(info.tensors[segment.tensor.index()].shape)}};
      if (segment.kind == Segment::Kind::kStorage) views = writer->storage_views(segment.shard);
      for (const StorageView& view : views) {
        const TensorInfo& tensor = info.tensors[view.tensor.index()];
        const auto width = static_cast<std::size_t>(size_bytes(tensor.dtype));
        const std::string elements = source.elements(view.tensor.index());
        Dims at = Dims::filled(tensor.shape.rank(), 0);
        for (std::size_t element = 0; element * width < elements.size(); ++element) {
          std::int64_t place = view.offset;
          for (int dim = 0; dim < at.rank(); ++dim) place += at[dim] * view.strides[dim];
          bytes.replace(static_cast<std::size_t>(place) * width, width, elements, element * width, width);
          for (int dim = at.rank(); dim-- > 0 && ++at[dim] == tensor.shape[dim];) at[dim] = 0;
        }
      }
      crcs.push_back(crc32(0, as_bytes(bytes)));
    }
    file += bytes;
  }
  return file;
}

TEST(TorchReader, NamesTensorsAndReadsViews) {
  const Opened opened(golden("views.pt"));
  ASSERT_TRUE(opened.result) << opened.error();
  std::vector<std::string> names;
  for (const TensorInfo& tensor : opened.info().tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("w", "wt", "part", "empty", "scalar", "p", "f8", "same.0"));
  EXPECT_THAT(opened.floats(1), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(opened.floats(2), ElementsAre(5, 6, 9, 10));
  EXPECT_EQ(opened.floats(7), opened.floats(0));
  EXPECT_EQ(opened.elements(4)[0], 7);
  EXPECT_EQ(opened.elements(5), "\x80\x3f\x80\x3f");  // two bfloat16 ones
  EXPECT_EQ(opened.elements(6), "\x38\xc0");          // float8_e4m3fn 1, −2
  EXPECT_EQ(opened.info().tensors[6].dtype, DType::kFloat8E4M3FN);
  EXPECT_EQ(opened.info().tensors[3].shape, (Dims{0, 5}));
}

TEST(TorchReader, KeepsSharingWrappersAndObjects) {
  const Opened opened(golden("views.pt"));
  ASSERT_TRUE(opened.result);
  const StateGraph& state = opened.info().state;
  const auto leaves = flatten(state);
  ASSERT_TRUE(leaves);
  const auto view = [&](std::size_t leaf) { return state.view(leaves->node(leaf)); };
  EXPECT_EQ(view(0).storage, view(1).storage);
  EXPECT_EQ(view(0).storage, view(2).storage);
  EXPECT_NE(view(0).storage, view(4).storage);
  EXPECT_NE(view(0).object, 0U);
  EXPECT_EQ(view(0).object, view(7).object);  // "w" and "same.0" are one Python object
  EXPECT_TRUE(view(5).parameter);
  EXPECT_TRUE(view(5).requires_grad);
  EXPECT_EQ(leaves->name(9), "args");
  EXPECT_TRUE(state.is_instance(leaves->node(9), "argparse", "Namespace"));
}

TEST(TorchReader, HandsOutTheCrcOfEveryStorage) {
  const Opened opened(golden("views.pt"));
  ASSERT_TRUE(opened.result);
  const auto checked = opened.reader().locate(0)->checked;
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->size, 48);
  EXPECT_EQ(checked->crc32, 0x3e667d78U);
  const Opened without(golden("nocrc.pt"));
  ASSERT_TRUE(without.result) << without.error();
  EXPECT_FALSE(without.reader().locate(0)->checked);
}

TEST(TorchReader, ExplainsFilesItCannotRead) {
  EXPECT_THAT(Opened(golden("legacy.pt")).error(), HasSubstr("before 1.6"));
  EXPECT_THAT(Opened("no zip at all").error(), HasSubstr("no zip"));
  std::string big = golden("views.pt");
  const std::size_t at = big.find("little");
  big.replace(at, 6, "big\0\0\0", 6);
  EXPECT_THAT(Opened(big).error(), HasSubstr("CRC-32"));
}

TEST(TorchReader, DetectsItsFiles) {
  MemoryFileSystem files;
  files.put_file("/new", golden("views.pt"));
  files.put_file("/old", golden("legacy.pt"));
  files.put_file("/other", "hello");
  files.put_file("/empty", "");
  files.put_folder("/folder");
  EXPECT_TRUE(detect_torch(files, "/new"));
  EXPECT_TRUE(detect_torch(files, "/old"));
  for (const char* path : {"/other", "/empty", "/folder", "/missing"}) EXPECT_FALSE(detect_torch(files, path)) << path;
}

TEST(TorchReader, RefusesEveryTruncation) {
  const std::string whole = golden("views.pt");
  for (std::size_t size = 0; size < whole.size(); size += 7) EXPECT_FALSE(Opened(whole.substr(0, size)).result) << size;
}

TEST(TorchReader, FindsEveryFlippedBitOfThePickle) {
  const std::string whole = golden("views.pt");
  const std::size_t begin = 64;  // data.pkl, 817 bytes
  for (std::size_t at = begin; at < begin + 817; at += 5) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_THAT(Opened(std::move(damaged)).error(), HasSubstr("CRC-32")) << at;
  }
}

// A torch file around a hand-written pickle with one storage of `bytes` bytes.
std::string file_of(const std::string& pickle, std::int64_t bytes) {
  ZipLayout layout("x");
  layout.begin(pickle);
  layout.add_data(bytes);
  layout.close();
  const std::string data(static_cast<std::size_t>(bytes), '\1');
  std::string file = layout.literal(0, {});
  if (bytes > 0) file += data + layout.literal(2, std::vector<std::uint32_t>{crc32(0, as_bytes(data))});
  return file;
}

// _rebuild_tensor_v2 with the given pickled offset, sizes and strides over a FloatStorage of 4 elements.
std::string view_pickle(const std::string& offset_sizes_strides) {
  return "\x80\x02"
         "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
         "0X\3\0\0\0cpuK\4tQ"s +
         offset_sizes_strides +
         "\x89"
         "ccollections\nOrderedDict\n)RtR.";
}

TEST(TorchReader, AcceptsAViewThatFillsItsStorage) {
  const Opened opened(file_of(view_pickle("K\0K\2K\2\x86K\1K\2\x86"s), 16));
  ASSERT_TRUE(opened.result) << opened.error();
  EXPECT_EQ(opened.info().tensors[0].name, "tensor");
  EXPECT_EQ(opened.info().tensors[0].shape, (Dims{2, 2}));
}

TEST(TorchReader, RefusesViewsThatLie) {
  const std::string outside[] = {
      "K\1K\4\x85K\1\x85"s,                                                      // starts one too late
      "K\0K\2\x85K\4\x85"s,                                                      // stride past the end
      "K\0\x8a\x08\0\0\0\0\0\0\0\x40\x85K\1\x85"s,                               // 2^62 elements
      "K\0\x8a\x08\0\0\0\0\0\0\0\x40\x8a\x08\0\0\0\0\0\0\0\x40\x86K\0K\0\x86"s,  // 2^124 elements
      "K\0K\2\x85\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85"s,                 // stride 2^63 − 1
      "J\xff\xff\xff\xffK\1\x85K\1\x85"s,                                        // offset −1
      "K\0K\2\x85J\xff\xff\xff\xff\x85"s,                                        // stride −1
      "K\0J\xff\xff\xff\xff\x85K\1\x85"s,                                        // size −1
      "K\0K\2\x85K\1K\1\x86"s,                                                   // more strides than sizes
      "K\0NN"s,
  };
  for (const std::string& view : outside) {
    const Opened opened(file_of(view_pickle(view), 16));
    EXPECT_FALSE(opened.result) << testing::PrintToString(view);
  }
}

TEST(TorchReader, NamesTheStorageOfAViewThatIsTooLarge) {
  const Opened opened(file_of(view_pickle("K\0\x8a\x08\0\0\0\0\0\0\0\x40\x85K\0\x85"s), 16));  // 2^62 over one
  EXPECT_THAT(opened.error(),
              HasSubstr("a tensor of storage '0': float32 of shape [4611686018427387904] has 2^60 bytes or more"));
}

TEST(TorchReader, RefusesStoragesOfAnotherSize) {
  EXPECT_THAT(Opened(file_of(view_pickle("K\0K\1\x85K\1\x85"s), 12)).error(), HasSubstr("has 12 bytes"));
  EXPECT_THAT(Opened(file_of(view_pickle("K\0K\1\x85K\1\x85"s), 0)).error(), HasSubstr("has 0 bytes"));
}

TEST(TorchWriter, ReadsBackAsItWas) {
  const Opened source(golden("views.pt"));
  ASSERT_TRUE(source.result);
  const auto bytes = written(source);
  ASSERT_TRUE(bytes) << bytes.error().to_string();
  const Opened again(*bytes);
  ASSERT_TRUE(again.result) << again.error();
  EXPECT_EQ(again.info().tensors, source.info().tensors);
  EXPECT_TRUE(equal(again.info().state, again.info().state.root, source.info().state, source.info().state.root));
  for (std::size_t tensor = 0; tensor < source.info().tensors.size(); ++tensor) {
    EXPECT_EQ(again.elements(tensor), source.elements(tensor));
    EXPECT_EQ(again.reader().locate(tensor)->strides, source.reader().locate(tensor)->strides);
  }
}

TEST(TorchWriter, RefusesTensorsThatAreCut) {
  const Opened source(golden("nocrc.pt"));
  ASSERT_TRUE(source.result);
  ExplicitCollectionBuilder builder(source.info().tensors, 2, {});
  for (int device = 0; device < 2; ++device)
    ASSERT_TRUE(builder.add(DeviceId(device), TensorId(0), sub_tensor_of_box(Box{{device}, {1}})));
  const auto target = std::move(builder).finish();
  ASSERT_TRUE(target);
  WriteRequest request;
  request.source = &source.info();
  request.target = target->get();
  EXPECT_EQ(make_torch_writer()->prepare(request).error().code(), ErrorCode::kUnsupported);
}

TEST(TorchItem, IsAnArchiveThatReadsBack) {
  const ZipLayout layout = tensor_item(DType::kUInt16, {2, 3});
  const std::string data = "abcdefghijkl";
  const Opened opened(layout.literal(0, {}) + data +
                      layout.literal(2, std::vector<std::uint32_t>{crc32(0, as_bytes(data))}));
  ASSERT_TRUE(opened.result) << opened.error();
  EXPECT_EQ(opened.info().tensors[0].dtype, DType::kUInt16);
  EXPECT_EQ(opened.elements(0), data);
  // The sizes that torch 2.13 gives torch.save(torch.ones(3, 2), stream).
  const TensorItemSizes sizes = tensor_item_sizes(DType::kFloat32, {3, 2});
  EXPECT_EQ(sizes.before + sizes.data + sizes.after, 1577);
}

TEST(TorchDocument, ShowsAPickleThatReads) {
  const std::string text = file_text("docs/formats/torch.md");
  const std::size_t begin = text.find("```hex\n") + 7;
  std::istringstream block(text.substr(begin, text.find("```", begin) - begin));
  std::string pickle;
  for (std::string line; std::getline(block, line);) {
    std::istringstream digits(line.substr(0, line.find('#')));
    for (std::string byte; digits >> byte;) pickle.push_back(static_cast<char>(std::stoi(byte, nullptr, 16)));
  }
  MemoryFileSystem files;
  files.put_file("/p", pickle);
  const auto source = files.open("/p");
  const auto read = read_torch_pickle(**source, 0, static_cast<std::int64_t>(pickle.size()));
  ASSERT_TRUE(read) << read.error().to_string();
  ASSERT_EQ(read->tensors.size(), 1U);
  EXPECT_EQ(read->tensors[0], (TensorInfo{"a", DType::kFloat32, {2}}));
  EXPECT_EQ(read->storages[0].key, "0");
  EXPECT_EQ(read->storages[0].size_bytes, 8);
}

}  // namespace
}  // namespace tenplex
