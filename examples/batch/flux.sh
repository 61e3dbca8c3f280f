#!/bin/bash
# A solver under Flux.  Not run on such a system: only its syntax is tested.
#
#     flux batch flux.sh
#
# The processes of one node are spares.  The script is the initial program of a Flux instance of
# its own; `flux exec` starts the daemons.
#flux: --nodes=3
#flux: --nslots=6
#flux: --cores-per-slot=1
#flux: --time-limit=1h
#flux: --output=ftkit.{{id}}.log

export FTKIT_LEVEL_HDF5_DIRECTORY="${FTKIT_LEVEL_HDF5_DIRECTORY:-$PWD}"

slots=6
read -ra names <<<"$(flux hostlist --expand instance)"
nodes=${#names[@]}
spares=$((slots / nodes))
work=$(mktemp -d "$PWD/ftkit-flux.XXXXXX")
trap 'rm -rf "$work"' EXIT
printf "%s slots=$spares\n" "${names[@]}" >"$work/hosts"

# mpirun calls this in the place of ssh: HOST COMMAND...
cat >"$work/agent" <<'END'
#!/bin/bash
host=$1
shift
rank=$(flux overlay lookup "$host")
exec flux exec --rank="$rank" /bin/sh -c "$*"
END
chmod +x "$work/agent"
export PRTE_MCA_plm_ssh_agent="$work/agent"
ftkit run -n $((slots - spares)) --spares "$spares" --hostfile "$work/hosts" -- ./heat2d -o result
