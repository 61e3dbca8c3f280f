#!/bin/sh
# Regions beyond 2 and 4 GiB through the file system, where there is room for them.
: "${BUILD:=build}"
free_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
disk_kib=$(df -Pk "${TMPDIR:-/tmp}" | awk 'NR == 2 { print $4 }')
if [ "${free_kib:-0}" -lt 12582912 ] || [ "${disk_kib:-0}" -lt 12582912 ]; then
    echo "1..0 # SKIP takes 12 GiB of memory and as much disk"
    exit 0
fi
export FTKIT_TEST_LARGE=1 OMPI_MCA_btl_sm_backing_directory="${TMPDIR:-/tmp}"
exec scripts/guard 600 scripts/cmocka-tap "$BUILD/unit/t_api_large"
