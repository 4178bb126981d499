// Prints an archive of compact lattices as OpenFst itself reads them, floats by their bits.

#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>

#include "lat/kaldi-lattice.h"

static void print(const kaldi::CompactLatticeWeight &weight)
{
    for (float cost : {weight.Weight().Value1(), weight.Weight().Value2()}) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, &cost, sizeof bits);
        std::printf(" %08x", bits);
    }
    for (std::int32_t id : weight.String())
        std::printf(" %d", id);
    std::printf("\n");
}

int main()
{
    std::string key;
    while (std::getline(std::cin, key, ' ')) {
        const std::unique_ptr<kaldi::CompactLattice> lattice(
            kaldi::CompactLattice::Read(std::cin, fst::FstReadOptions("archive")));
        if (!lattice || lattice->Start() != 0)
            return 1;
        std::printf("%s\n", key.c_str());
        for (int state = 0; state < lattice->NumStates(); ++state) {
            for (fst::ArcIterator<kaldi::CompactLattice> arcs(*lattice, state); !arcs.Done(); arcs.Next()) {
                const auto &arc = arcs.Value();
                std::printf("%d %d %d %d", state, arc.nextstate, arc.ilabel, arc.olabel);
                print(arc.weight);
            }
            if (lattice->Final(state) != kaldi::CompactLatticeWeight::Zero()) {
                std::printf("%d", state);
                print(lattice->Final(state));
            }
        }
    }
    return 0;
}
