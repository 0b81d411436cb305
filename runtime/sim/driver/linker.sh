#!/bin/sh
# `ld.lld` of the simulated device: each part, compiled for one kind of core, holds the whole kernel here.
output=a.out
part=
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
        part=${part:-$1}
        ;;
    esac
    shift
done
if [ -z "$part" ]; then
    echo "ld.lld: error: no input files" >&2
    exit 1
fi
exec cp "$part" "$output"
