// OpenFst's reading of a graph, as a vector FST or in the form that the file has, timed by itself.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include <fst/fstlib.h>

// Processor seconds of this thread.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: openfst-load GRAPH [REPEAT]\n"
                 "Prints the number of arcs and least and median processor seconds of reading the file.\n");
    return 1;
  }
  int repeat = argc > 2 ? std::max(1, std::atoi(argv[2])) : 5;
  std::vector<double> seconds;
  size_t arcs = 0;
  for (int round = 0; round < repeat; round++) {
    double start = now();
    std::unique_ptr<fst::StdFst> graph(fst::StdFst::Read(argv[1]));
    seconds.push_back(now() - start);
    if (!graph) return 1;
    arcs = 0;
    for (fst::StateIterator<fst::StdFst> state(*graph); !state.Done(); state.Next())
      arcs += graph->NumArcs(state.Value());
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("arcs %zu, least %.6f, median %.6f\n", arcs, seconds[0], seconds[seconds.size() / 2]);
}
