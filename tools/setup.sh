# SPDX-License-Identifier: MIT
# Sourced by tools/demo and tools/test: installs the Debian packages that are missing.

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
