// What the programs beside this file share: options, archives, lattices as bytes, clocks.
#ifndef KALDI_PEER_COMMON_H_
#define KALDI_PEER_COMMON_H_

#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kaldi.h"

// `--name=value` options in front of plain arguments. `usage` is printed, and the program ends,
// where a name is not among `defaults` or the number of plain arguments is another.
class Options {
 public:
  Options(int argc, char **argv, std::map<std::string, std::string> defaults, size_t arguments,
          const char *usage);
  double number(const std::string &name) const;
  bool flag(const std::string &name) const;
  const std::string &text(const std::string &name) const { return values_.at(name); }
  const std::string &argument(size_t index) const { return arguments_[index]; }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> arguments_;
};

// Ends the program with a message.
[[noreturn]] void fail(const std::string &message);

// An archive's entries in turn: `next` reads a key and leaves `in` at the entry's first byte.
class ArchiveReader {
 public:
  explicit ArchiveReader(const std::string &path);
  bool next(std::string *key);
  std::istream &in() { return *in_; }
  // Whether the lattice at hand is text: binary ones have no mark but OpenFst's first byte.
  bool text_follows();

 private:
  std::unique_ptr<std::istream> in_;
};

std::unique_ptr<std::ostream> open_output(const std::string &path);

void read_transition_model(const std::string &path, kaldi::TransitionModel *model);

// A lattice as OpenFst's own bytes, so that scaling and counting need no template of OpenFst.
struct LatticeBytes {
  std::string bytes;
  bool compact = false;
  size_t states = 0, arcs = 0;

  // Multiplies the acoustic costs as Kaldi does: in double precision, rounded once.
  void scale_acoustic(double scale);
  // The cost of the best path of a topologically sorted lattice that starts at its first state.
  double best_cost();

 private:
  friend LatticeBytes to_bytes(const kaldi::Lattice &);
  friend LatticeBytes to_bytes(const kaldi::CompactLattice &);
  // Calls `weight` with each state, graph and acoustic cost (which it may change) and next state;
  // the next state of a final cost is -1.
  void visit(const std::function<void(int64_t, float *, int64_t)> &weight);
};

LatticeBytes to_bytes(const kaldi::Lattice &lattice);
LatticeBytes to_bytes(const kaldi::CompactLattice &lattice);
std::unique_ptr<kaldi::Lattice> to_lattice(const LatticeBytes &bytes);
std::unique_ptr<kaldi::CompactLattice> to_compact(const LatticeBytes &bytes);

// Reads the entry an archive stands at; an empty pointer where Kaldi cannot read it.
std::unique_ptr<kaldi::Lattice> read_lattice(ArchiveReader *archive);

void write_entry(std::ostream *out, const std::string &key, const LatticeBytes &lattice, bool text);

// Seconds, on the wall clock and of this thread's processor time.
struct Clock {
  double wall = 0, cpu = 0;
  static Clock now();
  // Adds what has passed since `start` was `now`, and returns it.
  Clock add_since(const Clock &start);
};

double median(std::vector<double> values);

#endif
