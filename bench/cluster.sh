# Sourced by the scripts of this folder: a coordinator and workers of their own, on this machine or
# each worker in a network namespace with a limited link. Everything ends with the script: processes
# by their ids, namespaces by the names that were made here.
#
#   cluster_begin NAME           folder out/NAME, where logs and results go
#   network_begin                from now on in namespaces; leaves with code 77 where that is not allowed
#   start_coordinator [FLAG...]
#   start_worker ID [FLAG...]    in a namespace: before it, give_link ID RATE (such as 200mbit)
#   client ARGUMENT...           pipedream, connected to the coordinator
#   stop_cluster                 ends coordinator and workers, leaves namespaces

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${PIPEDREAM_BIN:-$root/build/release/bin}
pids=()
spaces=()
net=
subnet=10.231.77
workers=0
declare -A space_of=()

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

cluster_begin() {
  out=$root/out/$1
  mkdir -p "$out"
  for program in pipedream pipedream-coordinator pipedream-worker make-model; do
    [ -x "$bin/$program" ] || die "$bin/$program is missing; run scripts/build.sh"
  done
  trap cluster_end EXIT
  trap 'exit 130' INT TERM
}

cluster_end() {
  stop_cluster
  local space
  for space in "${spaces[@]}"; do ip netns del "$space" 2>/dev/null || true; done
  spaces=()
}

stop_cluster() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  pids=()
}

make_space() {
  ip netns add "$1" || return 1
  spaces+=("$1")
  ip -n "$1" link set lo up
}

network_begin() {
  net=pd$$
  local said
  if ! said=$(ip netns add "$net-hub" 2>&1); then
    echo "$(basename "$0"): network namespaces are not permitted here (they need root, or the capabilities" \
      "CAP_NET_ADMIN and CAP_SYS_ADMIN): $said" >&2
    exit 77
  fi
  spaces+=("$net-hub")
  ip -n "$net-hub" link set lo up
  if ! said=$(ip -n "$net-hub" link add hub type bridge 2>&1); then
    echo "$(basename "$0"): this kernel has no bridges: $said" >&2
    exit 77
  fi
  ip -n "$net-hub" addr add "$subnet.254/24" dev hub
  ip -n "$net-hub" link set hub up
}

# limit SPACE DEVICE RATE
limit() {
  local said
  if ! said=$(tc -n "$1" qdisc replace dev "$2" root tbf rate "$3" burst 128kb latency 100ms 2>&1); then
    echo "$(basename "$0"): tc cannot limit a link here: $said" >&2
    exit 77
  fi
}

# give_link ID RATE: a namespace for the worker, joined to the others by a link of that rate in each
# direction. Again: changes the rate.
give_link() {
  local id=$1 rate=$2 number
  if [ -z "${space_of[$id]:-}" ]; then
    number=$((${#space_of[@]} + 1))
    make_space "$net-$number" || exit 77
    space_of[$id]=$net-$number
    ip -n "$net-hub" link add "port$number" type veth peer name eth0 netns "$net-$number"
    ip -n "$net-hub" link set "port$number" master hub up
    ip -n "$net-$number" addr add "$subnet.$number/24" dev eth0
    ip -n "$net-$number" link set eth0 up
  fi
  number=${space_of[$id]##*-}
  limit "${space_of[$id]}" eth0 "$rate"
  limit "$net-hub" "port$number" "$rate"
}

# Bytes that the workers' links have carried, out of them.
moved_bytes() {
  local space total=0 bytes
  for space in "${space_of[@]}"; do
    bytes=$(ip netns exec "$space" cat /sys/class/net/eth0/statistics/tx_bytes)
    total=$((total + bytes))
  done
  echo "$total"
}

start_coordinator() {
  local state
  state=$(mktemp -d "$out/state-XXXXXX")
  rm -f "$out/port"
  local host=127.0.0.1 within=()
  if [ -n "$net" ]; then
    host=$subnet.254
    within=(ip netns exec "$net-hub")
  fi
  "${within[@]}" "$bin/pipedream-coordinator" --listen "$host:0" --state-dir "$state" --port-file "$out/port" \
    ${net:+--insecure} "$@" >"$out/coordinator.log" 2>&1 &
  pids+=($!)
  local tries=0
  until [ -s "$out/port" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 200 ] || die "the coordinator does not start: $(tail -3 "$out/coordinator.log")"
    sleep 0.05
  done
  local port
  port=$(cat "$out/port")
  server=$host:${port##*:}
  workers=0
}

start_worker() {
  local id=$1 within=() listen=()
  shift
  if [ -n "$net" ]; then
    within=(ip netns exec "${space_of[$id]}")
    listen=(--listen "$subnet.${space_of[$id]##*-}:0" --insecure)
  fi
  OMP_NUM_THREADS=1 "${within[@]}" "$bin/pipedream-worker" --coordinator "$server" --id "$id" "${listen[@]}" "$@" \
    >"$out/$id.log" 2>&1 &
  pids+=($!)
  workers=$((workers + 1))
}

client() {
  local within=() flags=()
  if [ -n "$net" ]; then
    within=(ip netns exec "$net-hub")
    flags=(--insecure)
  fi
  PIPEDREAM_SERVER=$server "${within[@]}" "$bin/pipedream" "$@" "${flags[@]}"
}

await_workers() {
  local tries=0
  until [ "$(client get workers --no-headers 2>/dev/null | grep -c IDLE)" -eq "$workers" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || die "not all workers register: $(tail -n 2 "$out"/*.log)"
    sleep 0.1
  done
}

# submit ARGUMENT...: submits a job and sets `job`.
submit() {
  job=$(client submit "$@" -o name)
  job=${job#job/}
}

# follow [FILE]: until the job ends. Every evaluation goes to the file as a line "SECONDS ACCURACY",
# counted from the moment that it began to train; the bytes that were moved while it trained go to
# out/NAME/moved. Fails if the job does.
follow() {
  local begun= line now accuracy moved=0 file=${1:-/dev/null}
  : >"$file"
  client logs "$job" --follow --progress plain 2>&1 | while read -r line; do
    now=$(date +%s.%N)
    case $line in
      *"RUNNING: trains"*)
        begun=$now
        [ -z "$net" ] || moved=$(moved_bytes)
        ;;
      *"FINISHING:"*) [ -z "$net" ] || echo $(($(moved_bytes) - moved)) >"$out/moved" ;;
      epoch*"test accuracy"*)
        accuracy=${line##*test accuracy }
        accuracy=${accuracy%% *}
        echo "$now ${begun:-$now} $accuracy" | awk '{printf "%.2f %s\n", $1 - $2, $3}' >>"$file"
        ;;
    esac
    echo "  $line" >&2
  done
}

# The job as lines "path<TAB>value": progress.samples_per_s.
job_paths() {
  client get job "$job" -o json | awk -f "$root/bench/json_paths.awk" | sed 's/^items\.0\.//'
}
