#!/bin/sh
# make_venv.sh FOLDER [PYTHON]: makes a virtual environment with the first Python that can, or says
# what to install. Only POSIX sh: this runs before anything else is there.
set -eu
folder=$1
wanted=${2:-}
seen=""
for python in ${wanted:-python3 python3.13 python3.12 python3.11}; do
    command -v "$python" >/dev/null 2>&1 || continue
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        seen="$seen\n    $python is $version"
        continue
    }
    # Debian splits ensurepip into a package of its own: without it venv fails half way.
    "$python" -c 'import ensurepip, venv' 2>/dev/null || {
        seen="$seen\n    $python is $version without venv: sudo apt-get install python$version-venv"
        continue
    }
    echo "Making $folder with $python ($version) ..."
    rm -rf "$folder"
    "$python" -m venv "$folder"
    exit 0
done
printf 'Runnel needs Python 3.11 or newer with its venv module.%b\n' "${seen:+\nFound:$seen}" >&2
echo "On Debian 12, Ubuntu 24.04 or newer:" >&2
echo "    sudo apt-get install python3 python3-venv" >&2
exit 1
