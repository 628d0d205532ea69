// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_machine.h"

#include <fmt/format.h>

#include <charconv>

namespace tenplex {

Result<PickleDocument> PickleMachine::run() {
  while (!stopped_) {
    op_offset_ = input_.position();
    auto step = next_opcode();
    if (!step) return std::move(step).error().with_context(fmt::format("pickle byte {}", op_offset_));
  }
  document_.end_offset_ = input_.position();
  memo_ = {};
  TENPLEX_TRY(doubled_keys_.check(document_, 0));
  return std::move(document_);
}

// ── stack ────────────────────────────────────────────────────────────────────────────────────────────────────────────

// For an object of the class that is pushed next.
Result<void> PickleMachine::open_frame(const PickleHook& hook) {
  if (frames_.size() == kMaxFrames) return unsupported("objects are nested too deeply");
  frames_.push_back({stack_.size(), document_.graph_.mark(), recent_puts_.size(), &hook});
  return {};
}

void PickleMachine::shrink(std::size_t size) {
  stack_.resize(size);
  while (!frames_.empty() && frames_.back().position >= size) frames_.pop_back();
  if (frames_.empty()) recent_puts_.clear();
}

std::span<const NodeId> PickleMachine::take_items(std::size_t size) {
  items_.assign(stack_.begin() + static_cast<std::ptrdiff_t>(size), stack_.end());
  shrink(size);
  return items_;
}

Result<std::span<const NodeId>> PickleMachine::pop_items(std::size_t count) {
  TENPLEX_TRY(need(count));
  return take_items(stack_.size() - count);
}

Result<std::span<const NodeId>> PickleMachine::pop_to_mark() {
  if (marks_.empty()) return corrupt("there is no mark");
  const std::size_t mark = marks_.back();
  marks_.pop_back();
  return take_items(mark);
}

// ── memo ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<void> PickleMachine::put(std::uint64_t index) {
  TENPLEX_TRY(need(1));
  if (index > static_cast<std::uint64_t>(op_offset_)) return corrupt(fmt::format("memo index {} is too large", index));
  while (index >= memo_.size()) memo_.push_back(kNoNode);
  if (memo_[index] == kNoNode) ++memo_used_;
  memo_[index] = stack_.back();
  if (!frames_.empty()) recent_puts_.push_back(static_cast<std::uint32_t>(index));
  return {};
}

Result<void> PickleMachine::get(std::uint64_t index) {
  if (index >= memo_.size() || memo_[index] == kNoNode) return corrupt(fmt::format("memo entry {} is not set", index));
  if (memo_[index] == kDropped)
    return unsupported(fmt::format("memo entry {} is a part of an object that was read already", index));
  return push(memo_[index]);
}

Result<std::uint64_t> PickleMachine::index_line() {
  TENPLEX_ASSIGN_OR_RETURN(const std::string line, input_.take_line());
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || end != line.data() + line.size()) return corrupt("a memo index is no number");
  return std::uint64_t{value};
}

Result<void> PickleMachine::memo_opcode(char code) {
  std::uint64_t index = 0;
  switch (code) {
    case 'q':
    case 'h': {
      TENPLEX_ASSIGN_OR_RETURN(index, input_.take_unsigned(1));
      break;
    }
    case 'r':
    case 'j': {
      TENPLEX_ASSIGN_OR_RETURN(index, input_.take_unsigned(4));
      break;
    }
    default: {  // 'p', 'g'
      TENPLEX_ASSIGN_OR_RETURN(index, index_line());
    }
  }
  return code == 'q' || code == 'r' || code == 'p' ? put(index) : get(index);
}

// ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<void> PickleMachine::stack_opcode(char code) {
  switch (code) {
    case '0':  // POP takes a mark if that is on top
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
        return {};
      }
      TENPLEX_TRY(need(1));
      pop();
      return {};
    case '1':
      TENPLEX_TRY(pop_to_mark());
      return {};
    case '2':
      TENPLEX_TRY(need(1));
      return push(stack_.back());
    case '\x80': {
      TENPLEX_ASSIGN_OR_RETURN(protocol_, input_.take_unsigned(1));
      if (protocol_ > 5) return unsupported(fmt::format("pickle protocol {}", protocol_));
      return {};
    }
    case '\x95': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t size, input_.take_unsigned(8));
      if (size > static_cast<std::uint64_t>(input_.remaining())) return corrupt("a frame is longer than the pickle");
      return {};
    }
    default:  // '.'
      if (stack_.size() != 1 || !marks_.empty()) return corrupt("the pickle stops with an untidy stack");
      document_.graph_.root = stack_.back();
      stopped_ = true;
      return {};
  }
}

Result<void> PickleMachine::next_opcode() {
  TENPLEX_ASSIGN_OR_RETURN(const char code, input_.take_byte());
  switch (code) {
    case 'N':
      return push_fixed(kAtomNone);
    case '\x88':
      return push_fixed(kAtomTrue);
    case '\x89':
      return push_fixed(kAtomFalse);
    case 'K':
    case 'M':
    case 'J':
    case '\x8a':
    case '\x8b':
    case 'G':
    case 'I':
    case 'L':
    case 'F':
      return number_opcode(code);
    case '\x8c':
    case 'U':
    case 'X':
    case 'T':
    case '\x8d':
    case 'C':
    case 'B':
    case '\x8e':
    case '\x96':
    case 'S':
    case 'V':
      return text_opcode(code);
    case '}':
    case ']':
    case '\x8f':
    case ')':
    case '\x85':
    case '\x86':
    case '\x87':
    case 'a':
    case 's':
    case 't':
    case 'l':
    case 'd':
    case '\x91':
    case '\x90':
    case 'e':
    case 'u':
      return container_opcode(code);
    case 'R':
    case '\x81':
    case '\x92':
    case 'b':
    case 'Q':
    case 'P':
    case '\x93':
    case 'c':
      return object_opcode(code);
    case '\x94':
      return put(memo_used_);
    case 'q':
    case 'h':
    case 'r':
    case 'j':
    case 'p':
    case 'g':
      return memo_opcode(code);
    case '(':
      marks_.push_back(stack_.size());
      return {};
    case '0':
    case '1':
    case '2':
    case '\x80':
    case '\x95':
    case '.':
      return stack_opcode(code);
    default:
      return corrupt(fmt::format("0x{:02x} is no known pickle opcode", static_cast<unsigned char>(code)));
  }
}

}  // namespace tenplex
