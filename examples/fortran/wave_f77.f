C     WAVE: VIBRATING MEMBRANE, AN OLD CODE THAT SURVIVES FAILURES.
C
C     SPDX-License-Identifier: BSD-3-Clause
C
C     The wave equation on the unit square with a fixed rim, by the
C     leapfrog scheme; the membrane is cut into strips of columns.  It
C     is written as such codes are: fixed form, COMMON, implicit typing,
C     arrays of fixed size, the file mpif.h.  New lines are marked by
C     FTKIT: one USE, the declaration of the context, and the calls in
C     the main program.  The members of COMMON that the loop changes are
C     registered one by one, as whole arrays with their unused parts.
C
C     WAVE [STEPS [MILLISECONDS [PREFIX]]]
C
C     STEPS: 400.  MILLISECONDS: to wait in every step.  PREFIX: write
C     process id and step of rank R to the file PREFIX.R, for scripts.
C     Configuration: the variables FTKIT_<SECTION>_<KEY>.
C
      PROGRAM WAVE
      USE FTKIT
      INCLUDE 'mpif.h'
      PARAMETER (NX = 120, NYMAX = 120)
      DOUBLE PRECISION U, UOLD, UNEW, ENERGY, SUMS(2)
      COMMON /FIELD/ U(0:NX+1, 0:NYMAX+1), UOLD(0:NX+1, 0:NYMAX+1),
     &               UNEW(0:NX+1, 0:NYMAX+1)
      COMMON /STATE/ ENERGY, ISTEP
      COMMON /BLOCK/ NY, JFIRST, NCOMM, MYRANK, NRANKS
      COMMON /TIMES/ NSTEPS, MSWAIT
C     FTKIT: the context
      TYPE(FTKIT_CTX) CTX
      SAVE CTX

      CALL MPI_INIT(IERR)
      CALL READIN
C     FTKIT: spares wait in here
      CALL FTKIT_OPEN(MPI_COMM_WORLD, ' ', CTX, IERR)
      IF (IERR .EQ. FTKIT_SPARE_DONE) GOTO 90
      IF (IERR .NE. FTKIT_OK) GOTO 80
      CALL FTKIT_BIND_COMM(CTX, NCOMM)
      CALL SETUP
      CALL FTKIT_REGISTER(CTX, 'U', U)
      CALL FTKIT_REGISTER(CTX, 'UOLD', UOLD)
      CALL FTKIT_REGISTER_REPLICATED(CTX, 'ENERGY', ENERGY)
      CALL FTKIT_REGISTER_REPLICATED(CTX, 'ISTEP', ISTEP)

C     FTKIT: the head of the loop restores, writes sets, and repairs.
C     A set that could not be written (-20 to -39) is no reason to end.
   10 IF (.NOT. FTKIT_STEP(CTX, IERR)) GOTO 20
      IF (IERR .LT. 0 .AND. IERR .GT. -20) GOTO 80
      CALL NOTE
      IF (ISTEP .GE. NSTEPS) THEN
        CALL ENERGI
        CALL CHECKS(SUMS)
C     FTKIT: the end, unless this rank has to roll back
        CALL FTKIT_END(CTX)
        GOTO 10
      END IF
      CALL ADVANC
      IF (MOD(ISTEP, 50) .EQ. 0) CALL ENERGI
      ISTEP = ISTEP + 1
      CALL DELAY
      GOTO 10

   20 IF (IERR .LT. 0) GOTO 80
C     FTKIT: after FTKIT_HALT the next start continues here
      IF (IERR .EQ. FTKIT_OK .AND. MYRANK .EQ. 0)
     &  WRITE (*, 1000) ISTEP, ENERGY, SUMS
 1000 FORMAT (' WAVE:', I6, ' STEPS, ENERGY', 1PE24.16, ', CHECK', 0P,
     &        2F20.0)
      CALL FTKIT_CLOSE(CTX, IERR)
      IF (IERR .EQ. FTKIT_OK) GOTO 90

   80 WRITE (*, 1010) IERR
 1010 FORMAT (' WAVE: FAILED WITH CODE', I4)
      CALL MPI_ABORT(MPI_COMM_WORLD, 1, IERR)
   90 CALL MPI_FINALIZE(IERR)
      END
C
C     The arguments
C
      SUBROUTINE READIN
      COMMON /TIMES/ NSTEPS, MSWAIT
      CHARACTER*200 PREFIX, WORD
      COMMON /NAMES/ PREFIX
      NSTEPS = 400
      MSWAIT = 0
      PREFIX = ' '
      CALL GETARG(1, WORD)
      IF (WORD .NE. ' ') READ (WORD, *) NSTEPS
      CALL GETARG(2, WORD)
      IF (WORD .NE. ' ') READ (WORD, *) MSWAIT
      CALL GETARG(3, PREFIX)
      END
C
C     This rank's strip, and a membrane that is plucked off its middle.
C     No messages: a replacement runs this part alone.
C
      SUBROUTINE SETUP
      INCLUDE 'mpif.h'
      PARAMETER (NX = 120, NYMAX = 120)
      DOUBLE PRECISION U, UOLD, UNEW, ENERGY, X, Y
      COMMON /FIELD/ U(0:NX+1, 0:NYMAX+1), UOLD(0:NX+1, 0:NYMAX+1),
     &               UNEW(0:NX+1, 0:NYMAX+1)
      COMMON /STATE/ ENERGY, ISTEP
      COMMON /BLOCK/ NY, JFIRST, NCOMM, MYRANK, NRANKS
      CALL MPI_COMM_RANK(NCOMM, MYRANK, IERR)
      CALL MPI_COMM_SIZE(NCOMM, NRANKS, IERR)
      JFIRST = NYMAX*MYRANK/NRANKS
      NY = NYMAX*(MYRANK + 1)/NRANKS - JFIRST
      ISTEP = 0
      ENERGY = 0D0
      DO 10 J = 0, NYMAX + 1
        DO 10 I = 0, NX + 1
          X = DBLE(I)/(NX + 1)
          Y = DBLE(MIN(JFIRST + J, NYMAX + 1))/(NYMAX + 1)
          U(I, J) = MIN(X, 1 - X)*MIN(Y, (1 - Y)/2)
          UOLD(I, J) = U(I, J)
          UNEW(I, J) = 0D0
   10 CONTINUE
      END
C
C     One step: the outer columns of a strip go to both sides, then
C     leapfrog with a Courant number of 1/2.  No MPI_SENDRECV here: that
C     of Open MPI 5 crashes when its source is MPI_PROC_NULL, as at the
C     ends of a chain, and another rank has failed.
C
      SUBROUTINE ADVANC
      INCLUDE 'mpif.h'
      PARAMETER (NX = 120, NYMAX = 120)
      DOUBLE PRECISION U, UOLD, UNEW, C2
      PARAMETER (C2 = 0.25D0)
      COMMON /FIELD/ U(0:NX+1, 0:NYMAX+1), UOLD(0:NX+1, 0:NYMAX+1),
     &               UNEW(0:NX+1, 0:NYMAX+1)
      COMMON /BLOCK/ NY, JFIRST, NCOMM, MYRANK, NRANKS
      DIMENSION ISTAT(MPI_STATUS_SIZE)
      LEFT = MYRANK - 1
      IRIGHT = MYRANK + 1
      IF (IRIGHT .LT. NRANKS) CALL MPI_SEND(U(0, NY), NX + 2,
     &  MPI_DOUBLE_PRECISION, IRIGHT, 1, NCOMM, IERR)
      IF (LEFT .GE. 0) CALL MPI_RECV(U(0, 0), NX + 2,
     &  MPI_DOUBLE_PRECISION, LEFT, 1, NCOMM, ISTAT, IERR)
      IF (LEFT .GE. 0) CALL MPI_SEND(U(0, 1), NX + 2,
     &  MPI_DOUBLE_PRECISION, LEFT, 2, NCOMM, IERR)
      IF (IRIGHT .LT. NRANKS) CALL MPI_RECV(U(0, NY + 1), NX + 2,
     &  MPI_DOUBLE_PRECISION, IRIGHT, 2, NCOMM, ISTAT, IERR)
      DO 10 J = 1, NY
        DO 10 I = 1, NX
          UNEW(I, J) = 2*U(I, J) - UOLD(I, J) + C2*((U(I - 1, J)
     &      + U(I + 1, J)) + (U(I, J - 1) + U(I, J + 1)) - 4*U(I, J))
   10 CONTINUE
      DO 20 J = 1, NY
        DO 20 I = 1, NX
          UOLD(I, J) = U(I, J)
          U(I, J) = UNEW(I, J)
   20 CONTINUE
      END
C
C     Kinetic energy, to look at
C
      SUBROUTINE ENERGI
      INCLUDE 'mpif.h'
      PARAMETER (NX = 120, NYMAX = 120)
      DOUBLE PRECISION U, UOLD, UNEW, ENERGY, E
      COMMON /FIELD/ U(0:NX+1, 0:NYMAX+1), UOLD(0:NX+1, 0:NYMAX+1),
     &               UNEW(0:NX+1, 0:NYMAX+1)
      COMMON /STATE/ ENERGY, ISTEP
      COMMON /BLOCK/ NY, JFIRST, NCOMM, MYRANK, NRANKS
      E = 0D0
      DO 10 J = 1, NY
        DO 10 I = 1, NX
          E = E + (U(I, J) - UOLD(I, J))**2
   10 CONTINUE
      CALL MPI_ALLREDUCE(E, ENERGY, 1, MPI_DOUBLE_PRECISION, MPI_SUM,
     &  NCOMM, IERR)
      END
C
C     Two checksums of all bits of U and UOLD.  These are whole numbers,
C     so that the order of adding does not matter.
C
      SUBROUTINE CHECKS(SUMS)
      INCLUDE 'mpif.h'
      PARAMETER (NX = 120, NYMAX = 120)
      DOUBLE PRECISION U, UOLD, UNEW, SUMS(2), PART(2)
      COMMON /FIELD/ U(0:NX+1, 0:NYMAX+1), UOLD(0:NX+1, 0:NYMAX+1),
     &               UNEW(0:NX+1, 0:NYMAX+1)
      COMMON /BLOCK/ NY, JFIRST, NCOMM, MYRANK, NRANKS
      PART(1) = 0D0
      PART(2) = 0D0
      DO 10 J = 1, NY
        DO 10 I = 1, NX
          K = I + NX*(JFIRST + J - 1)
          PART(1) = PART(1) + MIXED(U(I, J), K)
          PART(2) = PART(2) + MIXED(UOLD(I, J), K)
   10 CONTINUE
      CALL MPI_ALLREDUCE(PART(1), SUMS(1), 2, MPI_DOUBLE_PRECISION,
     &  MPI_SUM, NCOMM, IERR)
      END
C
C     The bits of a value, stirred with its place
C
      FUNCTION MIXED(VALUE, K)
      DOUBLE PRECISION VALUE, V
      DIMENSION IV(2)
      EQUIVALENCE (V, IV)
      V = VALUE
      MIXED = IEOR(IV(1), ISHFTC(IV(2), MOD(K, 31)))
      DO 10 L = 1, 4
        MIXED = IEOR(MIXED, ISHFT(MIXED, 13))
        MIXED = IEOR(MIXED, ISHFT(MIXED, -17))
        MIXED = IEOR(MIXED, ISHFT(MIXED, 5))
        MIXED = IEOR(ISHFTC(MIXED, MOD(K/31 + L, 32)), K)
   10 CONTINUE
      END
C
C     For scripts that look for a victim
C
      SUBROUTINE NOTE
      DOUBLE PRECISION ENERGY
      COMMON /STATE/ ENERGY, ISTEP
      COMMON /BLOCK/ NY, JFIRST, NCOMM, MYRANK, NRANKS
      CHARACTER*200 PREFIX
      COMMON /NAMES/ PREFIX
      CHARACTER*212 PATH
      IF (PREFIX .EQ. ' ') RETURN
      WRITE (PATH, 1000) PREFIX(1:LNBLNK(PREFIX)), MYRANK
 1000 FORMAT (A, '.', I0)
      OPEN (17, FILE = PATH)
      WRITE (17, 1010) GETPID(), ISTEP
 1010 FORMAT (2I11)
      CLOSE (17)
      END
C
C     Do nothing for a while; the others wait for rank 0
C
      SUBROUTINE DELAY
      INCLUDE 'mpif.h'
      COMMON /BLOCK/ NY, JFIRST, NCOMM, MYRANK, NRANKS
      COMMON /TIMES/ NSTEPS, MSWAIT
      DOUBLE PRECISION T
      IF (MYRANK .NE. 0) RETURN
      T = MPI_WTIME() + MSWAIT*1D-3
   10 IF (MPI_WTIME() .LT. T) GOTO 10
      END
