// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/sha256.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

// The examples of FIPS 180-4.
TEST(Sha256, IsWhatTheStandardSays) {
  Sha256 none;
  EXPECT_EQ(none.finish(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 abc;
  abc.add(as_bytes("abc"));
  EXPECT_EQ(abc.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, DoesNotDependOnTheParts) {
  Sha256 parts;
  for (const char* part : {"abcdbcdecdefdefgefghfghighij", "", "hijkijkljklmklmnlmnomnopnopq"})
    parts.add(as_bytes(part));
  EXPECT_EQ(parts.finish(), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

}  // namespace
}  // namespace tenplex
