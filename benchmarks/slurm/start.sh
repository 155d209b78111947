#!/usr/bin/env bash
# Start a Slurm cluster of one node by hand, for tests: munged, slurmctld and slurmd, without systemd and accounting.
# Everything is in FOLDER, and the daemons listen on the loopback interface only.
#
#     apt-get install slurm-wlm munge          (as root; Debian 12 has Slurm 22.05)
#     benchmarks/slurm/start.sh FOLDER [CORES]  (as root, because slurmd starts jobs as their users)
#     export SLURM_CONF=FOLDER/slurm.conf       (then sbatch, squeue, scontrol and scancel use this cluster)
#     benchmarks/slurm/stop.sh FOLDER
#
# CORES is the number of processor cores that Slurm shares out; by default all of this machine.
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cores=${2:-$(nproc)}
host=$(hostname -s)
mkdir -p "$folder"/{state,spool,log}
chmod 700 "$folder"

dd if=/dev/urandom of="$folder/munge.key" bs=128 count=1 status=none
chmod 400 "$folder/munge.key"
munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/log/munged.log" --seed-file="$folder/munge.seed"

cat > "$folder/slurm.conf" << END
ClusterName=byhand
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
# Without these, the daemons would listen on all interfaces.
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
# cred_expire is also the time that a requeued job waits before it starts again; the default is two minutes,
# and less than five seconds would count as the default.
AuthInfo=socket=$folder/munge.socket,cred_expire=5
CredType=cred/munge
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
# Several jobs share the node: every job gets the cores that it asks for.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=1
SchedulerTimeSlice=5
KillWait=20
MinJobAge=300
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cores State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
END

export SLURM_CONF="$folder/slurm.conf"
slurmctld -c -f "$SLURM_CONF"
slurmd -c -f "$SLURM_CONF"
for _ in $(seq 100); do
    if [ "$(sinfo --noheader --format=%T 2> /dev/null)" = idle ]; then
        echo "Slurm is ready: export SLURM_CONF=$SLURM_CONF"
        exit 0
    fi
    sleep 0.2
done
echo "Slurm did not start; the logs are in $folder/log" >&2
tail -n 5 "$folder"/log/*.log >&2
"$(dirname "$0")/stop.sh" "$folder"
exit 1
