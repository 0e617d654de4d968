! SPDX-FileCopyrightText: The h5lossy authors
! SPDX-License-Identifier: BSD-3-Clause

! Write a compressed variable with netCDF in Fortran, read it back, and print the largest error.
!
!   gfortran netcdf.f90 $(nf-config --fflags --flibs) -o netcdf_fortran
!   HDF5_PLUGIN_PATH=$(h5lossy plugin-path) ./netcdf_fortran a.nc

program write_netcdf
  use, intrinsic :: iso_fortran_env, only: error_unit, real32, real64
  use netcdf
  implicit none

  integer, parameter :: longitudes = 180, latitudes = 90, steps = 10, filter = 46412
  real(real64), parameter :: bound = 1e-3_real64
  real(real32), parameter :: fill = 1e20_real32

  real(real32) :: values(longitudes, latitudes, steps), decoded(longitudes, latitudes, steps)
  character(len=4096) :: path
  integer :: file, dims(3), tas, lon, lat, time, cd_values(4)

  path = "a.nc"
  if (command_argument_count() > 0) call get_command_argument(1, path)
  do concurrent (lon = 1:longitudes, lat = 1:latitudes, time = 1:steps)
    values(lon, lat, time) = &
      merge(fill, 280 + 20 * sin((lat + time) / 15.0) * cos(lon / 30.0), lat < 20 .and. lon < 50)
  end do

  ! PFPL (1) with an absolute bound (0); h5lossy cd-values prints the words of others.
  cd_values(1:2) = [1, 0]
  cd_values(3:4) = transfer(bound, cd_values(3:4))

  ! Without nf90_classic_model it works as well.
  call check(nf90_create(trim(path), ior(nf90_netcdf4, nf90_classic_model), file))
  call check(nf90_def_dim(file, "lon", longitudes, dims(1)))
  call check(nf90_def_dim(file, "lat", latitudes, dims(2)))
  call check(nf90_def_dim(file, "time", nf90_unlimited, dims(3)))
  call check(nf90_def_var(file, "tas", nf90_float, dims, tas, chunksizes=[longitudes, latitudes, 1]))
  call check(nf90_def_var_fill(file, tas, 0, fill))  ! comes back bit for bit
  call check(nf90_def_var_filter(file, tas, filter, 4, cd_values))  ! before nf90_enddef
  call check(nf90_enddef(file))
  call check(nf90_put_var(file, tas, values))
  call check(nf90_close(file))

  call check(nf90_open(trim(path), nf90_nowrite, file))
  call check(nf90_inq_varid(file, "tas", tas))
  call check(nf90_get_var(file, tas, decoded))
  call check(nf90_close(file))

  print "(a, f11.9)", "largest error ", maxval(abs(real(values, real64) - decoded))
  if (any(abs(real(values, real64) - decoded) > bound)) stop 1
  if (any((values == fill) .neqv. (decoded == fill))) stop 1

contains

  subroutine check(status)
    integer, intent(in) :: status

    if (status == nf90_noerr) return
    write (error_unit, "(a)") trim(nf90_strerror(status))
    stop 1
  end subroutine check
end program write_netcdf
