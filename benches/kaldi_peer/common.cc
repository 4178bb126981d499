#include "common.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sstream>

void fail(const std::string &message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

Options::Options(int argc, char **argv, std::map<std::string, std::string> defaults,
                 size_t arguments, const char *usage)
    : values_(std::move(defaults)) {
  bool good = true;
  for (int i = 1; i < argc; i++) {
    std::string word = argv[i];
    if (word.compare(0, 2, "--") != 0) {
      arguments_.push_back(word);
      continue;
    }
    size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (!values_.count(name)) good = false;
    values_[name] = equals == std::string::npos ? "true" : word.substr(equals + 1);
  }
  if (good && arguments_.size() == arguments) return;
  std::string message = usage;
  message += "\noptions and defaults:";
  for (const auto &option : values_) message += " --" + option.first + "=" + option.second;
  fail(message);
}

double Options::number(const std::string &name) const {
  const std::string &text = values_.at(name);
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) fail("--" + name + " is not a number: " + text);
  return value;
}

bool Options::flag(const std::string &name) const {
  const std::string &text = values_.at(name);
  if (text != "true" && text != "false") fail("--" + name + " is neither true nor false: " + text);
  return text == "true";
}

ArchiveReader::ArchiveReader(const std::string &path)
    : in_(std::make_unique<std::ifstream>(path, std::ios::binary)) {
  if (!*in_) fail("cannot open " + path);
}

bool ArchiveReader::next(std::string *key) {
  *in_ >> *key;
  if (!*in_) return false;
  if (in_->peek() != '\n') in_->get();
  return true;
}

bool ArchiveReader::text_follows() { return std::isspace(in_->peek()); }

std::unique_ptr<std::ostream> open_output(const std::string &path) {
  auto out = std::make_unique<std::ofstream>(path, std::ios::binary);
  if (!*out) fail("cannot write " + path);
  return out;
}

void read_transition_model(const std::string &path, kaldi::TransitionModel *model) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot open " + path);
  bool binary = in.peek() == 0;
  if (binary) in.ignore(2);
  model->Read(in, binary);
}

namespace {

template <class T> T take(const std::string &bytes, size_t *at) {
  if (*at > bytes.size() || bytes.size() - *at < sizeof(T)) fail("a lattice ends early");
  T value;
  std::memcpy(&value, bytes.data() + *at, sizeof(T));
  *at += sizeof(T);
  return value;
}

template <class L> std::unique_ptr<L> finish(bool read, L *lattice) {
  std::unique_ptr<L> owned(lattice);
  if (!read) owned.reset();
  return owned;
}

}  // namespace

// OpenFst's `vector` file: a header, then each state's final cost, number of arcs and arcs.
void LatticeBytes::visit(const std::function<void(int64_t, float *, int64_t)> &weight) {
  size_t at = 0;
  if (take<int32_t>(bytes, &at) != 2125659606) fail("a lattice without OpenFst's first bytes");
  at += take<int32_t>(bytes, &at);
  at += take<int32_t>(bytes, &at);
  take<int32_t>(bytes, &at);
  if (take<int32_t>(bytes, &at) & 3) fail("a lattice with symbol tables");
  at += 16;
  int64_t number_of_states = take<int64_t>(bytes, &at);
  at += 8;
  auto one_weight = [&](int64_t state, bool final) {
    size_t start = at;
    float pair[2] = {take<float>(bytes, &at), take<float>(bytes, &at)};
    if (compact) at += 4 * size_t(take<int32_t>(bytes, &at));
    weight(state, pair, final ? -1 : take<int32_t>(bytes, &at));
    std::memcpy(&bytes[start], pair, 8);
  };
  states = arcs = 0;
  for (int64_t state = 0; state < number_of_states; state++, states++) {
    one_weight(state, true);
    int64_t count = take<int64_t>(bytes, &at);
    for (int64_t arc = 0; arc < count; arc++, arcs++) {
      at += 8;
      one_weight(state, false);
    }
  }
}

void LatticeBytes::scale_acoustic(double scale) {
  visit([=](int64_t, float *pair, int64_t) {
    if (!std::isinf(pair[0])) pair[1] = float(scale * pair[1]);
  });
}

double LatticeBytes::best_cost() {
  std::vector<double> cost(states, HUGE_VAL);
  if (!cost.empty()) cost[0] = 0;
  double best = HUGE_VAL;
  visit([&](int64_t state, float *pair, int64_t next) {
    double &to = next < 0 ? best : cost[next];
    to = std::min(to, cost[state] + pair[0] + pair[1]);
  });
  return best;
}

LatticeBytes to_bytes(const kaldi::Lattice &lattice) {
  std::ostringstream out;
  if (!kaldi::WriteLattice(out, true, lattice)) fail("a lattice could not be written");
  LatticeBytes result;
  result.bytes = out.str();
  result.visit([](int64_t, float *, int64_t) {});
  return result;
}

LatticeBytes to_bytes(const kaldi::CompactLattice &lattice) {
  std::ostringstream out;
  if (!kaldi::WriteCompactLattice(out, true, lattice)) fail("a lattice could not be written");
  LatticeBytes result;
  result.bytes = out.str();
  result.compact = true;
  result.visit([](int64_t, float *, int64_t) {});
  return result;
}

std::unique_ptr<kaldi::Lattice> to_lattice(const LatticeBytes &bytes) {
  std::istringstream in(bytes.bytes);
  kaldi::Lattice *lattice = nullptr;
  bool read = kaldi::ReadLattice(in, true, &lattice);
  return finish(read, lattice);
}

std::unique_ptr<kaldi::CompactLattice> to_compact(const LatticeBytes &bytes) {
  std::istringstream in(bytes.bytes);
  kaldi::CompactLattice *lattice = nullptr;
  bool read = kaldi::ReadCompactLattice(in, true, &lattice);
  return finish(read, lattice);
}

std::unique_ptr<kaldi::Lattice> read_lattice(ArchiveReader *archive) {
  kaldi::Lattice *lattice = nullptr;
  bool read = kaldi::ReadLattice(archive->in(), !archive->text_follows(), &lattice);
  return finish(read, lattice);
}

void write_entry(std::ostream *out, const std::string &key, const LatticeBytes &lattice,
                 bool text) {
  *out << key << ' ';
  if (!text) {
    *out << lattice.bytes;
  } else if (lattice.compact) {
    kaldi::WriteCompactLattice(*out, false, *to_compact(lattice));
  } else {
    kaldi::WriteLattice(*out, false, *to_lattice(lattice));
  }
  out->flush();
  if (!*out) fail("the output could not be written");
}

Clock Clock::now() {
  timespec wall, cpu;
  clock_gettime(CLOCK_MONOTONIC, &wall);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  Clock clock;
  clock.wall = wall.tv_sec + wall.tv_nsec * 1e-9;
  clock.cpu = cpu.tv_sec + cpu.tv_nsec * 1e-9;
  return clock;
}

Clock Clock::add_since(const Clock &start) {
  Clock end = now(), passed;
  passed.wall = end.wall - start.wall;
  passed.cpu = end.cpu - start.cpu;
  wall += passed.wall;
  cpu += passed.cpu;
  return passed;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}
