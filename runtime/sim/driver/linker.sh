#!/bin/sh
# `ld.lld` of the simulated device: joins objects, and refuses a symbol that two of them define.
output=a.out
inputs=
while [ $# -gt 0 ]; do
    case "$1" in
    -o)
        output=$2
        shift
        ;;
    -m | -L | -l) shift ;;
    -*) ;;
    *)
        if [ ! -e "$1" ]; then
            echo "ld.lld: error: cannot open $1" >&2
            exit 1
        fi
        inputs="$inputs
$1"
        ;;
    esac
    shift
done
if [ -z "$inputs" ]; then
    echo "ld.lld: error: no input files" >&2
    exit 1
fi
compiler=${ASCSIM_CXX:-$(cat "$(dirname "$0")/compiler")}
IFS='
'
set -f
# shellcheck disable=SC2086
said=$("$compiler" -shared $inputs -o "$output" 2>&1) && exit 0
printf '%s\n' "$said" | sed -n 's/.*multiple definition of .\([A-Za-z0-9_]*\).*/ld.lld: error: duplicate symbol: \1/p' >&2
printf '%s\n' "$said" >&2
exit 1
