#!/bin/sh
# Installs what tests/blender/test_window.py needs, where this is Debian and we are root.
# Never fails: without them that test says that it was skipped, and how to get them.
packages="blender xvfb openbox xdotool python3-numpy"
limit=${1:-300} # seconds
for tool in blender Xvfb openbox xdotool; do
    command -v "$tool" >/dev/null || missing="$missing $tool"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "The window test is skipped without$missing; as root: apt-get install $packages" >&2
    exit 0
fi
timeout "$limit" sh -c "apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $packages" >/dev/null 2>&1 ||
    echo "Installing $packages did not work; the window test is skipped" >&2
exit 0
