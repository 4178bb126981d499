// A stand-in for Kaldi's header of that name: docs/kaldi.md lists what the stand-ins hold.
#ifndef KALDI_STAND_IN_LATTICE_WEIGHT_H
#define KALDI_STAND_IN_LATTICE_WEIGHT_H

#include <limits>
#include <string>
#include <vector>

#include "fst/fstlib.h"

namespace fst {

// Graph and acoustic cost.
template <class FloatType>
class LatticeWeightTpl {
public:
    using T = FloatType;
    using ReverseWeight = LatticeWeightTpl;

    LatticeWeightTpl() : value1_(), value2_() {}
    LatticeWeightTpl(T a, T b) : value1_(a), value2_(b) {}

    T Value1() const { return value1_; }
    T Value2() const { return value2_; }
    LatticeWeightTpl Reverse() const { return *this; }

    static const LatticeWeightTpl Zero()
    {
        return LatticeWeightTpl(std::numeric_limits<T>::infinity(), std::numeric_limits<T>::infinity());
    }
    static const LatticeWeightTpl One() { return LatticeWeightTpl(0, 0); }
    static const std::string &Type()
    {
        static const std::string type = sizeof(T) == 4 ? "lattice4" : "lattice8";
        return type;
    }

    std::istream &Read(std::istream &stream)
    {
        ReadType(stream, &value1_);
        ReadType(stream, &value2_);
        return stream;
    }
    std::ostream &Write(std::ostream &stream) const
    {
        WriteType(stream, value1_);
        WriteType(stream, value2_);
        return stream;
    }

private:
    T value1_, value2_;
};

template <class T>
bool operator==(const LatticeWeightTpl<T> &a, const LatticeWeightTpl<T> &b)
{
    return a.Value1() == b.Value1() && a.Value2() == b.Value2();
}

template <class T>
bool operator!=(const LatticeWeightTpl<T> &a, const LatticeWeightTpl<T> &b)
{
    return !(a == b);
}

// A weight, and the transition-ids that go with it.
template <class WeightType, class IntType>
class CompactLatticeWeightTpl {
public:
    using W = WeightType;
    using ReverseWeight = CompactLatticeWeightTpl;

    CompactLatticeWeightTpl() {}
    CompactLatticeWeightTpl(const WeightType &w, const std::vector<IntType> &s) : weight_(w), string_(s) {}

    const W &Weight() const { return weight_; }
    const std::vector<IntType> &String() const { return string_; }

    static const CompactLatticeWeightTpl Zero() { return CompactLatticeWeightTpl(W::Zero(), {}); }
    static const CompactLatticeWeightTpl One() { return CompactLatticeWeightTpl(W::One(), {}); }
    static const std::string &Type()
    {
        static const std::string type = "compact" + W::Type() + std::to_string(sizeof(IntType));
        return type;
    }

    std::istream &Read(std::istream &stream)
    {
        weight_.Read(stream);
        std::int32_t size = 0;
        ReadType(stream, &size);
        string_.resize(stream && size > 0 ? std::size_t(size) : 0);
        for (IntType &each : string_)
            ReadType(stream, &each);
        return stream;
    }
    std::ostream &Write(std::ostream &stream) const
    {
        weight_.Write(stream);
        WriteType(stream, std::int32_t(string_.size()));
        for (IntType each : string_)
            WriteType(stream, each);
        return stream;
    }

private:
    W weight_;
    std::vector<IntType> string_;
};

template <class W, class I>
bool operator==(const CompactLatticeWeightTpl<W, I> &a, const CompactLatticeWeightTpl<W, I> &b)
{
    return a.Weight() == b.Weight() && a.String() == b.String();
}

template <class W, class I>
bool operator!=(const CompactLatticeWeightTpl<W, I> &a, const CompactLatticeWeightTpl<W, I> &b)
{
    return !(a == b);
}

} // namespace fst

#endif
