# SPDX-License-Identifier: MIT
# Sourced by the scripts beside it: installs the Debian packages that are missing, builds a program.

need_packages() {
  local missing=()
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "error: these packages are missing: ${missing[*]}" >&2
      echo "  hint: as root, apt-get install ${missing[*]}" >&2
      exit 1
    fi
    root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null </dev/null
  if ! "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
      >/tmp/simplx-install.$$ 2>&1 </dev/null; then
    tail -n 20 /tmp/simplx-install.$$ >&2
    echo "error: installing failed" >&2
    exit 1
  fi
  rm -f /tmp/simplx-install.$$
}

# build_program NAME [CMAKE-ARGUMENTS...]: an up-to-date, optimised $build/examples/NAME, with what it needs.
build=build/demo
build_program() {
  local name=$1
  shift
  need_packages g++ cmake ninja-build libeigen3-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  echo "building $name" >&2
  mkdir -p "$build"
  if ! { cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSIMPLX_TESTS=OFF "$@" &&
         cmake --build "$build" --target "$name"; } >"$build/build.log" 2>&1; then
    tail -n 30 "$build/build.log" >&2
    echo "error: the build failed; the whole log is $build/build.log" >&2
    exit 1
  fi
}
