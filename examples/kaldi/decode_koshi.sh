#!/usr/bin/env bash
# Decodes a data folder with Koshi in place of Kaldi's decoders: arguments, options and files are those of
# steps/decode.sh (GMMs) and steps/nnet3/decode.sh. Log-likelihoods come from Kaldi's own programs, and
# the cluster engine that --cmd names runs the jobs. Runs where a recipe runs, behind its path.sh.
#
#   decode_koshi.sh [options] <graph-dir> <data-dir> <decode-dir>
#
# The model is in the folder above <decode-dir>. Options are written "--name value":
#
#   --config FILE             options, as name=value lines that bash reads
#   --cmd COMMAND             runs the jobs (run.pl), as "queue.pl --mem 4G"
#   --nj N                    jobs (4)
#   --num-threads N           threads of a job (1); on a GPU how many utterances it searches together
#   --stage N                 begins there: 0 decodes a GMM's data, 1 a network's, 2 diagnostics, 3 scoring
#   --iter NAME               decodes with NAME.mdl (final)
#   --model FILE              decodes with this model
#   --beam --lattice-beam --max-active --min-active --minimize
#                             options of the search; defaults are those of Kaldi's script for that model
#   --acwt SCALE              acoustic scale of the search (0.083333 for GMMs, 0.1 for networks)
#   --post-decode-acwt SCALE  acoustic scale of the lattices that are written (1.0); chain models take 10.0
#   --transform-dir FOLDER    speaker transforms
#   --online-ivector-dir FOLDER
#   --frames-per-chunk --extra-left-context --extra-right-context --extra-left-context-initial
#   --extra-right-context-final
#                             options of nnet3-compute
#   --parallel-opts OPTIONS   goes to --cmd
#   --scoring-opts OPTIONS    goes to local/score.sh
#   --skip-scoring BOOL       (false)
#   --skip-diagnostics BOOL   (false)
#
# Not in Kaldi's scripts:
#
#   --type TYPE               gmm, nnet3 or ctc; without it nnet3 where the model's folder has final.config,
#                             configs/ or frame_subsampling_factor, else gmm. ctc: the graph (TLG.fst or
#                             HCLG.fst) has no transition model, and its label i reads column i - 1
#   --loglikes RSPECIFIER     log-likelihoods, with JOB for the number of the job, in place of those that
#                             gmm-compute-likes or nnet3-compute give; needed for ctc
#   --use-gpu yes|no|optional the search on a GPU (no)
#   --koshi-latgen COMMAND    (koshi-latgen-faster-mapped)

set -euo pipefail
shopt -s inherit_errexit

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }
die() { echo "$0: $*" >&2; exit 1; }

cmd=run.pl nj=4 num_threads=1 stage=0 iter=final model='' config=''
beam='' lattice_beam='' max_active=7000 min_active=200 minimize=false acwt='' post_decode_acwt=1.0
transform_dir='' online_ivector_dir=''
frames_per_chunk=50 extra_left_context=0 extra_right_context=0
# Kaldi's script has the last one, and does nothing with it either.
# shellcheck disable=SC2034
extra_left_context_initial=-1 extra_right_context_final=-1 ivector_scale=1.0
parallel_opts='' scoring_opts='' skip_scoring=false skip_diagnostics=false
type='' loglikes='' use_gpu=no koshi_latgen=koshi-latgen-faster-mapped

echo "$0 $*"
# shellcheck source=/dev/null
[ ! -f ./path.sh ] || . ./path.sh

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --*=*) die "options are written \"--name value\": $1" ;;
        --*)
            name=${1#--}
            name=${name//-/_}
            case $name in
                config | cmd | nj | num_threads | stage | iter | model | parallel_opts) ;;
                beam | lattice_beam | max_active | min_active | minimize | acwt | post_decode_acwt) ;;
                transform_dir | online_ivector_dir | ivector_scale | frames_per_chunk) ;;
                extra_left_context | extra_left_context_initial) ;;
                extra_right_context | extra_right_context_final) ;;
                scoring_opts | skip_scoring | skip_diagnostics) ;;
                type | loglikes | use_gpu | koshi_latgen) ;;
                *) die "invalid option $1" ;;
            esac
            [ $# -gt 1 ] || die "$1 has no value"
            printf -v "$name" '%s' "$2"
            if [ "$name" = config ]; then
                # shellcheck source=/dev/null
                . "$config"
            fi
            shift 2
            ;;
        *) break ;;
    esac
done
if [ $# -ne 3 ]; then
    usage >&2
    exit 1
fi
case $use_gpu in true) use_gpu=yes ;; false) use_gpu=no ;; esac
for name in minimize skip_scoring skip_diagnostics; do
    case ${!name} in true | false) ;; *) die "--${name//_/-} is ${!name}; it can be true or false" ;; esac
done

graphdir=$1 data=$2 dir=$3
srcdir=$(dirname "$dir")
sdata=$data/split$nj

if [ -z "$type" ]; then
    type=gmm
    for name in final.config configs frame_subsampling_factor; do
        [ ! -e "$srcdir/$name" ] || type=nnet3
    done
fi
graph=$graphdir/HCLG.fst
case $type in
    gmm) : "${beam:=13.0}" "${lattice_beam:=6.0}" "${acwt:=0.083333}" ;;
    nnet3) : "${beam:=15.0}" "${lattice_beam:=8.0}" "${acwt:=0.1}" ;;
    ctc)
        : "${beam:=15.0}" "${lattice_beam:=8.0}" "${acwt:=1.0}"
        [ -n "$loglikes" ] || die "--type ctc needs --loglikes"
        [ ! -f "$graphdir/TLG.fst" ] || graph=$graphdir/TLG.fst
        ;;
    *) die "--type is $type; it can be gmm, nnet3 or ctc" ;;
esac
# As in Kaldi, where max-active is looked at first.
[ "$min_active" -le "$max_active" ] || min_active=$max_active
first_stage=1
[ "$type" != gmm ] || first_stage=0

for name in "$graphdir" "$data" "$dir" "$model" "$transform_dir" "$online_ivector_dir"; do
    [[ $name != *[[:space:]]* ]] || die "$name has a blank in it, and would be two words in a pipe"
done

needed=("$graph" "$graphdir/words.txt")
if [ "$type" != ctc ]; then
    model=${model:-$srcdir/$iter.mdl}
    needed+=("$model")
fi
[ -n "$loglikes" ] || needed+=("$data/feats.scp")
[ -z "$online_ivector_dir" ] || needed+=("$online_ivector_dir/ivector_online.scp" "$online_ivector_dir/ivector_period")
for name in "${needed[@]}"; do
    [ -f "$name" ] || die "no such file $name"
done

mkdir -p "$dir/log"
if [ -z "$loglikes" ] && { [ ! -d "$sdata" ] || [ "$data/feats.scp" -nt "$sdata" ]; }; then
    PATH=$PATH:utils split_data.sh "$data" "$nj"
fi
echo "$nj" > "$dir/num_jobs"

# The contents of a file of the model's folder that need not be there.
of_model() { cat "$srcdir/$1" 2> /dev/null || true; }

# The features of job JOB, as the model was trained on them.
features() {
    local feats utt2spk="--utt2spk=ark:$sdata/JOB/utt2spk" transforms=trans
    feats="ark,s,cs:apply-cmvn $(of_model cmvn_opts) $utt2spk scp:$sdata/JOB/cmvn.scp scp:$sdata/JOB/feats.scp ark:- |"
    if [ "$type" = nnet3 ]; then
        transforms=raw_trans
    elif [ -f "$srcdir/final.mat" ]; then
        feats+=" splice-feats $(of_model splice_opts) ark:- ark:- | transform-feats $srcdir/final.mat ark:- ark:- |"
    else
        feats+=" add-deltas $(of_model delta_opts) ark:- ark:- |"
    fi
    if [ -n "$transform_dir" ]; then
        [ -f "$transform_dir/$transforms.1" ] || die "no such file $transform_dir/$transforms.1"
        [ "$(cat "$transform_dir/num_jobs")" = "$nj" ] || die "$transform_dir was made with another number of jobs"
        feats+=" transform-feats $utt2spk ark:$transform_dir/$transforms.JOB ark:- ark:- |"
    fi
    echo "$feats"
}

# Where job JOB has its log-likelihoods from.
log_likelihoods() {
    local feats network=()
    if [ -n "$loglikes" ]; then
        echo "$loglikes"
        return
    fi
    feats=$(features)
    if [ "$type" = gmm ]; then
        echo "ark:gmm-compute-likes $model \"$feats\" ark:- |"
        return
    fi
    if [ -n "$online_ivector_dir" ]; then
        network+=("--online-ivectors=scp:$online_ivector_dir/ivector_online.scp")
        network+=("--online-ivector-period=$(cat "$online_ivector_dir/ivector_period")")
    fi
    # For "chain" models and others that look at every third frame.
    [ ! -f "$srcdir/frame_subsampling_factor" ] ||
        network+=("--frame-subsampling-factor=$(cat "$srcdir/frame_subsampling_factor")")
    network+=("--frames-per-chunk=$frames_per_chunk"
        "--extra-left-context=$extra_left_context" "--extra-right-context=$extra_right_context"
        "--extra-left-context-initial=$extra_left_context_initial"
        "--extra-right-context-final=$extra_right_context_final")
    echo "ark:nnet3-compute --use-gpu=no --use-priors=true ${network[*]} $model \"$feats\" ark:- |"
}

if [ "$stage" -le $first_stage ]; then
    scores=$(log_likelihoods)
    sink="gzip -c > $dir/lat.JOB.gz"
    # The shell of a pipe looks at how its last program ends only.
    [ "$post_decode_acwt" = 1.0 ] ||
        sink="bash -o pipefail -c 'lattice-scale --acoustic-scale=$post_decode_acwt ark:- ark:- | $sink'"
    if [ "$type" = ctc ]; then
        of_labels=(--labels-are-columns=true)
    else
        of_labels=("$model")
    fi
    # --cmd and --parallel-opts are words that the shell is to split.
    # shellcheck disable=SC2086
    $cmd --num-threads "$num_threads" $parallel_opts JOB=1:"$nj" "$dir/log/decode.JOB.log" \
        "$koshi_latgen" --num-threads="$num_threads" --use-gpu="$use_gpu" --minimize="$minimize" \
        --max-active="$max_active" --min-active="$min_active" --beam="$beam" --lattice-beam="$lattice_beam" \
        --acoustic-scale="$acwt" --allow-partial=true --word-symbol-table="$graphdir/words.txt" \
        "${of_labels[@]}" "$graph" "$scores" "ark:|$sink" || die "decoding has failed"
fi

of_iter=()
if [ "$stage" -le 2 ] && [ "$type" != ctc ] && [ "$skip_diagnostics" = false ] &&
    [ -x steps/diagnostic/analyze_lats.sh ]; then
    steps/diagnostic/analyze_lats.sh --cmd "$cmd" --iter "$iter" "$graphdir" "$dir"
fi

if [ "$stage" -le 3 ] && [ "$skip_scoring" = false ]; then
    [ -x local/score.sh ] || die "not scoring: local/score.sh is not there, or not executable"
    [ "$iter" = final ] || of_iter=(--iter "$iter")
    # shellcheck disable=SC2086
    local/score.sh ${of_iter[@]+"${of_iter[@]}"} $scoring_opts --cmd "$cmd" "$data" "$graphdir" "$dir"
fi
