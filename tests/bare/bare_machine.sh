#!/usr/bin/env bash
# Test the two commands of the README on a minimal Debian without compiler or headers.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bare_machine.sh [--install-only] [--root FOLDER] RELEASE [COMMAND...]

Create a minimal Debian in a folder with debootstrap, clone this repository's
HEAD into it, and run there as an ordinary user, with chroot:

  make demo ONCE=1 && make test

  RELEASE         bookworm (Python 3.11) or trixie (Python 3.13)
  COMMAND         run this in the clone instead
  --install-only  run only `make setup`, and validate the examples
  --root FOLDER   keep the system there, and reuse it next time;
                  by default a folder below build/ that is removed at the end

Needs root and debootstrap. Uses the mirror of debootstrap and the package
index of pip that this machine is configured for.

Exit codes: 0 all passed, 1 a command failed, 2 wrong usage, 3 the system could
not be created.
TEXT
}

fail() {
  echo "bare_machine.sh: $2" >&2
  exit "$1"
}

install_only='' root='' keep=''
while [ $# -gt 0 ]; do
  case $1 in
    --install-only) install_only=yes ;;
    --root) [ $# -gt 1 ] || { usage >&2; exit 2; }; root=$2 keep=yes; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
release=${1:-}
case $release in
  bookworm | trixie) shift ;;
  *) usage >&2; exit 2 ;;
esac

repository=$(cd "$(dirname "$0")/../.." && pwd)
[ "$(id -u)" = 0 ] || fail 3 "run it as root: debootstrap and chroot need it"
command -v debootstrap >/dev/null || fail 3 "debootstrap is missing: apt-get install debootstrap"
if [ -z "$root" ]; then
  mkdir -p "$repository/build"
  root=$(mktemp -d "$repository/build/bare-$release.XXXXXX")
  # An ordinary user must be able to enter it.
  chmod 755 "$root"
else
  mkdir -p "$root"
  root=$(cd "$root" && pwd)
fi

mounts=()

mount_in() { # mount_in TARGET OPTIONS...
  mkdir -p "$root$1"
  mount "${@:2}" "$root$1"
  mounts=("$root$1" "${mounts[@]}")
}

# The folder is removed only if nothing is mounted in it.
clean_up() {
  local code=$? point mounted=''
  trap - EXIT
  for point in "${mounts[@]}"; do
    umount "$point" 2>/dev/null || umount --lazy "$point" || mounted=yes
  done
  if [ -z "$keep" ] && [ -z "$mounted" ]; then
    rm -rf --one-file-system "$root"
  fi
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

make_machine() {
  [ ! -e "$root/.made" ] || return 0
  echo "== Debian $release with python3, make and git"
  debootstrap --variant=minbase --include=python3,python3-venv,make,git,ca-certificates \
    "$release" "$root" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; return 1; }
  rm -f "$root.log"
  chroot "$root" useradd --create-home --shell /bin/bash user
  touch "$root/.made"
}

# Processes, shared memory for PostgreSQL, and the usual devices.
mount_system() {
  mount_in /proc -t proc proc
  mount_in /dev/shm -t tmpfs tmpfs
  local device
  for device in null zero full random urandom tty; do
    [ -e "$root/dev/$device" ] || touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
    mounts=("$root/dev/$device" "${mounts[@]}")
  done
}

# Share the package index of this machine: the resolver, certificates and configuration of pip, and
# the local folders in that configuration.
share_package_index() {
  cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
  mkdir -p "$root/etc/ssl/certs"
  cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null || true
  python3 -m pip config list |
    sed -nE "s/^(global|install|:env:)\.([a-z-]+)='(.*)'$/\2 = \3/p" |
    grep -vE '^(target|user|prefix|cert|cache-dir|config-file) ' |
    sort -u -t ' ' -k 1,1 >"$root/etc/pip.options" || true
  { echo '[global]'; cat "$root/etc/pip.options"; } >"$root/etc/pip.conf"
  local folder
  local_folders <"$root/etc/pip.options" | sort -u | while read -r folder; do
    [ ! -d "$folder" ] || echo "$folder"
  done >"$root/etc/pip.folders"
  while read -r folder; do
    mount_in "$folder" --bind -o ro "$folder"
  done <"$root/etc/pip.folders"
}

# Find-links are folders of wheels. The pages of an index refer to files next to its folder.
local_folders() {
  local place
  for place in $(grep -oE '(file://)?/[^ ]+' | grep -v '^//'); do
    case $place in
      file:///*/*) dirname "${place#file://}" ;;
      file://*) echo "${place#file://}" ;;
      *) echo "$place" ;;
    esac
  done
}

clone_repository() {
  rm -rf "$root/home/user/tenantcron"
  git clone --quiet --no-hardlinks "file://$repository" "$root/home/user/tenantcron"
  chroot "$root" chown -R user:user /home/user/tenantcron
}

as_user() {
  chroot "$root" env -i HOME=/home/user USER=user LANG=C.UTF-8 PATH=/usr/bin:/bin \
    su user -c "cd ~/tenantcron && $1"
}

make_machine || fail 3 "debootstrap failed"
mount_system
share_package_index
clone_repository
for tool in cc gcc clang; do
  ! chroot "$root" sh -c "command -v $tool" >/dev/null || fail 3 "the system has a compiler: $tool"
done

if [ $# -gt 0 ]; then
  commands=("$*")
elif [ -n "$install_only" ]; then
  commands=("make setup" ".venv/bin/tenantcron validate examples/manifests")
else
  commands=("make demo ONCE=1" "make test")
fi
for command in "${commands[@]}"; do
  echo "== Debian $release, $(chroot "$root" python3 --version): $command"
  as_user "$command" || fail 1 "failed on Debian $release: $command"
done
