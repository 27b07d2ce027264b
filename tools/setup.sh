# Sourced by quickstart and test: messages, packages, tool versions, the private Python. Expects `root` to be the checkout.
# shellcheck shell=bash
: "${root:?setup.sh is sourced by quickstart and test}"
configure_options=()

say() { printf '%s\n' "$*" >&2; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# The last lines of a log, for an error message that can be acted on.
show_tail() {
  say "--- last lines of $1"
  tail -n 25 "$1" >&2
  say "---"
}

# wanted SET...: the packages of these sets, one per line, alternatives resolved by what is installed or known.
wanted() {
  local set package rest name chosen
  while read -r set package rest; do
    [[ " $* " == *" $set "* ]] || continue
    chosen=${package%%|*}
    for name in ${package//|/ }; do
      if installed "$name"; then chosen=$name && break; fi
    done
    if [[ $package == *"|"* ]] && ! installed "$chosen"; then
      for name in ${package//|/ }; do
        if apt-cache show "$name" >/dev/null 2>&1; then chosen=$name && break; fi
      done
    fi
    printf '%s\n' "$chosen"
  done < <(grep -v '^#' "$root/cmake/packages.txt") | sort -u
}

installed() {
  [[ -n ${installed_packages-} ]] ||
    installed_packages=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p')
  grep -qxF "$1" <<<"$installed_packages"
}

purpose() {
  awk -v p="$1" 'index("|" $2 "|", "|" p "|") {for (i = 3; i <= NF; i++) printf "%s%s", $i, i < NF ? " " : "\n"; exit}' \
    "$root/cmake/packages.txt"
}

# install_packages SET...: installs what is missing; says what and why; does nothing where all is there.
install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "This is not Debian or Ubuntu: the packages of cmake/packages.txt have to be there already."
    return
  fi
  local missing=() name sudo=() log="$root/build/logs/packages.log" updated=
  missing_packages "$@"
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || die "these packages are missing and neither root nor sudo is at hand: ${missing[*]}"
    sudo=(sudo)
  fi
  if [[ -z $(apt-cache show cmake 2>/dev/null) ]]; then
    refresh_lists && updated=yes
    missing_packages "$@"
  fi
  say "Installing ${#missing[@]} packages with apt:"
  for name in "${missing[@]}"; do printf '  %-32s %s\n' "$name" "$(purpose "$name")" >&2; done
  if ! apt_install; then
    [[ -z $updated ]] && refresh_lists
    apt_install || { show_tail "$log" && die "apt-get could not install the packages above; see $log"; }
  fi
  installed_packages=
}

# The three below are parts of install_packages and use its variables.
missing_packages() {
  missing=()
  while read -r name; do
    installed "$name" || missing+=("$name")
  done < <(wanted "$@")
}
refresh_lists() {
  "${sudo[@]}" apt-get update >"$log" 2>&1 ||
    { show_tail "$log" && die "apt-get update failed: is the network there? See $log"; }
}
apt_install() {
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
    >>"$log" 2>&1 </dev/null
}

# at_least HAVE WANT: whether version HAVE is WANT or newer.
at_least() { [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# check_tools: versions of what the build needs. `yes` (set by --yes) allows installing Rust without asking.
check_tools() {
  local have
  have=$(cmake --version 2>/dev/null | sed -n '1s/.* //p') || true
  at_least "${have:-0}" 3.25 || die "cmake 3.25 or newer is needed, this system has ${have:-none} (Debian 12 or Ubuntu 23.04 have it)"
  have=$(g++ -dumpfullversion 2>/dev/null) || true
  at_least "${have:-0}" 12 || die "g++ 12 or newer is needed, this system has ${have:-none} (Debian 12 or Ubuntu 24.04 have it)"
  check_rust
}

check_rust() {
  local have log="$root/build/logs/rustup.log" answer
  [[ -d $HOME/.cargo/bin ]] && export PATH="$HOME/.cargo/bin:$PATH"
  have=$(rustc --version 2>/dev/null | awk '{print $2}') || true
  if command -v cargo >/dev/null && at_least "${have:-0}" 1.87; then return; fi
  say "Chat templates and constrained output use two Rust libraries: cargo and rustc 1.87 or newer are needed (here: ${have:-none})."
  if [[ -z ${yes-} ]]; then
    [[ -t 0 ]] || die "install Rust from https://rustup.rs, or run again with --yes to let this script do it"
    read -r -p "Install it now for this user with rustup's own installer (about 300 MB in ~/.rustup)? [y/N] " answer
    [[ $answer == [yY]* ]] || die "Rust 1.87 or newer is needed; install it from https://rustup.rs and run this again"
  fi
  say "Installing Rust with rustup ..."
  if command -v rustup >/dev/null; then
    rustup toolchain install stable --profile minimal >"$log" 2>&1 </dev/null && rustup default stable >>"$log" 2>&1
  else
    curl --proto '=https' --tlsv1.2 -sSf https://static.rust-lang.org/rustup/rustup-init.sh -o "$root/build/rustup-init.sh" 2>"$log" &&
      sh "$root/build/rustup-init.sh" -y --profile minimal --no-modify-path >>"$log" 2>&1 </dev/null
  fi || { show_tail "$log" && die "rustup could not install Rust: is the network there? See $log"; }
  export PATH="$HOME/.cargo/bin:$PATH"
}

# Processes to build with: the cores this process may use; ONDOL_JOBS overrides.
jobs_to_use() { printf '%s\n' "${ONDOL_JOBS:-$(nproc)}"; }

# make_venv: a private Python under build/, with pip, whatever the system's Python allows.
make_venv() {
  venv=$root/build/venv
  local log="$root/build/logs/venv.log"
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
    python3 -m venv "$venv" >"$log" 2>&1 || { show_tail "$log" && die "python3 could not make a virtual environment in $venv"; }
  fi
}

# build PRESET [TARGET...]: configures where needed and builds; the log is kept, its end shown on failure. Returns 1 then.
# `configure_options` (an array) goes to cmake when the build folder is new or was configured with others.
build() {
  local preset=$1 dir="$root/build/$1" log="$root/build/logs/$1.log" status=0
  shift
  if [[ ! -e $dir/build.ninja ]] || ! configured "$dir"; then
    say "Configuring $preset ..."
    (cd "$root" && cmake --preset "$preset" "${configure_options[@]}") >"$log" 2>&1 || {
      show_tail "$log"
      say "cmake could not configure the build ($preset); see $log"
      return 1
    }
  fi
  set +e
  if [[ -t 2 ]]; then
    ninja -C "$dir" -j "$(jobs_to_use)" "$@" 2>&1 | tee "$log" | progress
    status=${PIPESTATUS[0]}
  else
    ninja -C "$dir" -j "$(jobs_to_use)" "$@" >"$log" 2>&1
    status=$?
  fi
  set -e
  [[ $status == 0 ]] && return 0
  show_tail "$log"
  say "the build ($preset) failed; see $log"
  return 1
}

# Whether the cache of build folder $1 has the configure_options already.
configured() {
  local option
  for option in "${configure_options[@]}"; do
    grep -qxF -- "${option#-D}" <(sed 's/:[A-Z]*=/=/' "$1/CMakeCache.txt" 2>/dev/null) || return 1
  done
}

# Shows lines like "[12/80] ..." on one line of the terminal, the others not at all.
progress() {
  local line
  while IFS= read -r line; do
    [[ $line == \[*/*\]* ]] && printf '\r\033[K  %.*s' "$((${COLUMNS:-80} - 4))" "$line" >&2
  done
  printf '\r\033[K' >&2
}
