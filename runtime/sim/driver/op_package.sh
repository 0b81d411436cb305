#!/bin/sh
# Packs a folder of built operators into one file that unpacks itself: op_package.sh FOLDER FILE
set -e
cat >"$2" <<'HEAD'
#!/bin/sh
# A package of operators: FILE [--install-path=FOLDER] [--quiet]; without a folder, ASCEND_OPP_PATH is taken.
set -e
into=$ASCEND_OPP_PATH
for flag in "$@"; do
    case "$flag" in
    --install-path=*) into=${flag#--install-path=} ;;
    --quiet) ;;
    *)
        echo "unknown option $flag" >&2
        exit 1
        ;;
    esac
done
[ -n "$into" ] || { echo "where to? give --install-path=FOLDER, or set ASCEND_OPP_PATH" >&2; exit 1; }
mkdir -p "$into"
sed '1,/^END_OF_HEAD$/d' "$0" | base64 -d | tar -x -C "$into"
echo SUCCESS
exit 0
END_OF_HEAD
HEAD
tar -c --sort=name --owner=0 --group=0 --mtime=@0 -C "$1" vendors | base64 >>"$2"
chmod +x "$2"
